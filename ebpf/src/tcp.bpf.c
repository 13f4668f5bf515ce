/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What TCP does when things go wrong: retransmissions by flow and cause, and resets. */
#include "ours.h"

static __always_inline void retransmitted(__u64 flow, __u64 cause, __u64 n)
{
	struct retransmit_key key = { .flow = flow, .cause = cause };
	__u64 *value = bpf_map_lookup_elem(&retransmits, &key);

	if (!value) {
		__u64 first = 0;

		bpf_map_update_elem(&retransmits, &key, &first, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&retransmits, &key);
	}
	if (value)
		*value += n;
	else
		count_event(EVENT_RETRANSMIT_UNLISTED, flow != FLOW_OTHER, n);
}

static __always_inline int segment(struct sock *sk, struct sk_buff *skb)
{
	struct inet_connection_sock *connection = (void *)sk;
	__u64 cause = CAUSE_SYN;

	if (sk->__sk_common.skc_state != TCP_SYN_SENT)
		cause = BPF_CORE_READ_BITFIELD_PROBED(connection, icsk_ca_state);
	retransmitted(flow_of(sk), cause, segments_of(skb));
	return 0;
}

/* From 6.15: also failed attempts, with their error. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb__3, struct sock *sk, struct sk_buff *skb, int err)
{
	return err ? 0 : segment(sk, skb);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb__2, struct sock *sk, struct sk_buff *skb)
{
	return segment(sk, skb);
}

/* The request is a mini socket that no storage can be on: its listener has the flow. */
SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(tcp_retransmit_synack__1, struct sock *sk)
{
	retransmitted(flow_of(sk), CAUSE_SYNACK, 1);
	return 0;
}

/* Without a socket (a closed port), or without a packet (a socket aborts by itself). */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset__2, struct sock *sk, struct sk_buff *skb)
{
	_Bool ours = sk && flow_of(sk) != FLOW_OTHER;

	if (!ours && skb)
		ours = packet_is_ours(skb);
	count_event(EVENT_RESET_SENT, ours, 1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset__1, struct sock *sk)
{
	count_event(EVENT_RESET_RECEIVED, flow_of(sk) != FLOW_OTHER, 1);
	return 0;
}
