/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Every packet that the kernel threw away, by reason and place. The reason is the raw number: its
 * names move between kernels, so user space takes them from the running one. One program for each
 * number of arguments that the tracepoint has had; the first that verifies is used.
 */
#include "ours.h"

static __always_inline int dropped(struct sk_buff *skb, void *location, __u32 reason, _Bool ours)
{
	struct drop_key key = { .reason = reason, .location = (__u64)location };
	__u64 n = segments_of(skb);
	struct drop_value *value = bpf_map_lookup_elem(&drops, &key);

	if (!value) {
		struct drop_value first = {};

		bpf_map_update_elem(&drops, &key, &first, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&drops, &key);
	}
	if (!value) {
		count_event(EVENT_DROP_UNLISTED, ours, n);
		return 0;
	}
	if (ours)
		value->ours += n;
	value->system += n;
	return 0;
}

/* From 6.11: with the socket that would have received the packet. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb__4, struct sk_buff *skb, void *location, __u32 reason, struct sock *rx_sk)
{
	_Bool ours = rx_sk && flow_of(rx_sk) != FLOW_OTHER;

	return dropped(skb, location, reason, ours || packet_is_ours(skb));
}

/* From 5.17: with a reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb__3, struct sk_buff *skb, void *location, __u32 reason)
{
	return dropped(skb, location, reason, packet_is_ours(skb));
}

/* Before: the place alone. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb__2, struct sk_buff *skb, void *location)
{
	return dropped(skb, location, REASON_NONE, packet_is_ours(skb));
}
