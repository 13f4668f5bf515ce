/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Whether a socket or a packet belongs to the run, and how many segments a packet stands for. */
#ifndef RINGPERF_OURS_H
#define RINGPERF_OURS_H

#include "maps.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define PROTO_TCP 6
#define PROTO_UDP 17
#define IPV6_HEADER 40
#define TCP_SYN_SENT 2
#define TCP_LISTEN 10
#define MSG_PEEK 2

static __always_inline _Bool port_is_ours(__u16 port)
{
	__u32 word = port >> 6;
	__u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && (*bits >> (port & 63)) & 1;
}

static __always_inline _Bool namespace_is_ours(__u32 inum)
{
	__u64 key = inum;

	return bpf_map_lookup_elem(&namespaces, &key) != 0;
}

/*
 * The flow of a socket. A socket without storage (closed and made anew by the other side of a
 * connect-per-request flow, or a mini socket of the handshake) is still ours by its ports.
 */
static __always_inline __u64 flow_of(struct sock *sk)
{
	__u64 *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (flow)
		return *flow;
	if ((port_is_ours(sk->__sk_common.skc_num) ||
	     port_is_ours(bpf_ntohs(sk->__sk_common.skc_dport))) &&
	    namespace_is_ours(sk->__sk_common.skc_net.net->ns.inum))
		return FLOW_BY_PORT;
	return FLOW_OTHER;
}

/* The ports in a packet's headers; false where they are not TCP or UDP over IP. */
static __always_inline _Bool ports_of(struct sk_buff *skb, __u16 out[2])
{
	unsigned char *header = skb->head + skb->network_header;
	__u8 ip[IPV6_HEADER / 2];
	__u32 length, proto;

	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (bpf_probe_read_kernel(ip, sizeof(ip), header))
		return 0;
	if (ip[0] >> 4 == 4) {
		length = (ip[0] & 15) << 2;
		proto = ip[9];
		/* Only the first fragment carries the ports. */
		if ((ip[6] & 0x1f) || ip[7])
			return 0;
	} else if (ip[0] >> 4 == 6) {
		length = IPV6_HEADER;
		proto = ip[6];
	} else {
		return 0;
	}
	if (proto != PROTO_TCP && proto != PROTO_UDP)
		return 0;
	if (bpf_probe_read_kernel(out, 4, header + length))
		return 0;
	out[0] = bpf_ntohs(out[0]);
	out[1] = bpf_ntohs(out[1]);
	return 1;
}

/*
 * A packet without a socket of ours: by its ports, in a namespace of ours. The device is gone
 * once UDP has queued the packet (its place is used for other things, and reads as no namespace);
 * then the ports alone decide.
 */
static __always_inline _Bool packet_is_ours(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct net_device *dev;
	__u16 port[2] = {};
	__u32 inum;

	if (sk && flow_of(sk) != FLOW_OTHER)
		return 1;
	if (!ports_of(skb, port)) {
		add_at(EVENT_UNPARSED * 2 + 1, 1);
		return 0;
	}
	if (!port_is_ours(port[0]) && !port_is_ours(port[1]))
		return 0;
	dev = skb->dev;
	inum = dev ? dev->nd_net.net->ns.inum : 0;
	return !inum || namespace_is_ours(inum);
}

/* How many segments on the wire a packet stands for: GSO and GRO carry several in one. */
static __always_inline __u64 segments_of(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	__u16 segments = BPF_CORE_READ(info, gso_segs);
	__u16 size = BPF_CORE_READ(info, gso_size);

	if (segments)
		return segments;
	/* From an untrusted sender (a guest's driver) the size comes without the number. */
	if (size)
		return (skb->len + size - 1) / size;
	return 1;
}

#endif
