/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Sockets that could not take what arrived. */
#include "ours.h"

SEC("tp_btf/sock_rcvqueue_full")
int BPF_PROG(sock_rcvqueue_full__1, struct sock *sk)
{
	count_event(EVENT_RECEIVE_QUEUE_FULL, flow_of(sk) != FLOW_OTHER, 1);
	return 0;
}

SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(udp_fail_queue_rcv_skb__2, int rc, struct sock *sk)
{
	count_event(EVENT_UDP_QUEUE_FAIL, flow_of(sk) != FLOW_OTHER, 1);
	return 0;
}
