/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Where the time goes: stretches of a message's way through the kernel, each measured between two
 * stamps of its own, as histograms. Only sockets with storage count here: it is their filter and
 * their memory in one look-up.
 *
 * A packet is known by its address between two probes of one device's queue or one receive path.
 * Addresses are used again, so every entry point overwrites, every use checks, and a packet that
 * comes back from the wire must also bear the port that it was sent from.
 */
#include "bucket.h"
#include "ours.h"

struct slot {
	__u64 packet;
	__u64 at;
	__u64 port;
	__u64 transport;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} sending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} receiving SEC(".maps");

/*
 * Stamps of one socket. `ready` is a ring for datagrams: written by the softirq that queues, read
 * by the task that takes them, each with an index of its own. TCP has bytes, not datagrams: there
 * `first` is when the oldest data that nobody has read became ready.
 */
struct stamps {
	__u64 sent;
	__u64 first;
	__u64 pushed;
	__u64 popped;
	__u64 ready[READY_RING];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stamps);
} times SEC(".maps");

struct stage_value {
	__u64 count;
	__u64 sum;
	__u64 buckets[BUCKETS];
};

/* One for each stage and transport. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STAGES * 2);
	__type(key, __u32);
	__type(value, struct stage_value);
} stages SEC(".maps");

static __always_inline void passed(__u32 stage, __u64 transport, __u64 from, __u64 to)
{
	__u32 key = stage * 2 + (__u32)(transport & 1);
	struct stage_value *value = bpf_map_lookup_elem(&stages, &key);
	__u64 time = to > from ? to - from : 0;
	__u32 bucket = bucket_of(time);

	if (!value || bucket >= BUCKETS)
		return;
	value->count++;
	value->sum += time;
	value->buckets[bucket]++;
}

static __always_inline __u32 slot_of(struct sk_buff *skb)
{
	return ((__u64)skb >> 8) & (SLOTS - 1);
}

/* 0 for TCP, 1 for UDP, 2 for what has no stages. */
static __always_inline __u64 transport_of(struct sock *sk)
{
	__u16 protocol = sk->sk_protocol;

	return protocol == PROTO_TCP ? 0 : protocol == PROTO_UDP ? 1 : 2;
}

static __always_inline _Bool followed(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0) != 0;
}

/* An acknowledgement alone is no message. */
static __always_inline _Bool has_payload(struct sk_buff *skb)
{
	unsigned char *header = skb->head + skb->transport_header;
	__u32 offset = skb->transport_header - (__u32)(skb->data - skb->head);
	__u8 words = 0;

	if (bpf_probe_read_kernel(&words, 1, header + 12))
		return 0;
	return skb->len > offset + ((words >> 4) << 2);
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_sendmsg_locked__1, struct sock *sk)
{
	struct stamps *own;

	if (!followed(sk))
		return 0;
	own = bpf_sk_storage_get(&times, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (own && !own->sent)
		own->sent = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue__1, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct stamps *own;
	struct slot *slot;
	__u64 now, transport;
	__u32 key;

	if (!sk || !followed(sk))
		return 0;
	transport = transport_of(sk);
	if (transport > 1 || (!transport && !has_payload(skb)))
		return 0;
	now = bpf_ktime_get_ns();
	key = slot_of(skb);
	slot = bpf_map_lookup_elem(&sending, &key);
	if (!slot)
		return 0;
	slot->packet = (__u64)skb;
	slot->at = now;
	slot->port = sk->__sk_common.skc_num;
	slot->transport = transport;
	own = bpf_sk_storage_get(&times, sk, 0, 0);
	if (own && own->sent) {
		passed(STAGE_SUBMIT, transport, own->sent, now);
		own->sent = 0;
	}
	return 0;
}

/* Software segmentation makes new packets: then the queue is not seen, and neither is the wire. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit__1, struct sk_buff *skb)
{
	__u32 key = slot_of(skb);
	struct slot *slot = bpf_map_lookup_elem(&sending, &key);
	__u64 now;

	if (!slot || slot->packet != (__u64)skb)
		return 0;
	now = bpf_ktime_get_ns();
	passed(STAGE_QUEUE, slot->transport, slot->at, now);
	slot->at = now;
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb__1, struct sk_buff *skb)
{
	__u32 key = slot_of(skb);
	struct net_device *dev = skb->dev;
	struct slot *slot;
	__u16 port[2] = {};
	__u64 now;

	if (!ports_of(skb, port) || (!port_is_ours(port[0]) && !port_is_ours(port[1])))
		return 0;
	now = bpf_ktime_get_ns();
	slot = bpf_map_lookup_elem(&sending, &key);
	if (slot && slot->packet == (__u64)skb && slot->port == port[0]) {
		passed(STAGE_WIRE, slot->transport, slot->at, now);
		slot->packet = 0;
	}
	if (!dev || !namespace_is_ours(dev->nd_net.net->ns.inum))
		return 0;
	slot = bpf_map_lookup_elem(&receiving, &key);
	if (slot) {
		slot->packet = (__u64)skb;
		slot->at = now;
	}
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sk_data_ready__1, struct sock *sk)
{
	struct sk_buff *last;
	struct stamps *own;
	struct slot *slot;
	__u64 now, transport;
	__u32 key;

	if (!followed(sk))
		return 0;
	transport = transport_of(sk);
	if (transport > 1 || sk->__sk_common.skc_state == TCP_LISTEN)
		return 0;
	now = bpf_ktime_get_ns();
	own = bpf_sk_storage_get(&times, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (own && transport) {
		own->ready[own->pushed & (READY_RING - 1)] = now;
		own->pushed++;
	} else if (own && !own->first) {
		own->first = now;
	}
	last = sk->sk_receive_queue.prev;
	key = slot_of(last);
	slot = bpf_map_lookup_elem(&receiving, &key);
	if (slot && slot->packet == (__u64)last) {
		passed(STAGE_RECEIVE, transport, slot->at, now);
		slot->packet = 0;
	} else {
		/* Merged into the packet before it, or read by the time we look. */
		count_event(EVENT_RECEIVE_MISSED, 1, 1);
	}
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length__3, struct sock *sk, int length, int flags)
{
	struct stamps *own;
	__u64 at = 0, transport;

	if (length < 0 || flags & MSG_PEEK)
		return 0;
	own = bpf_sk_storage_get(&times, sk, 0, 0);
	if (!own)
		return 0;
	transport = transport_of(sk);
	if (!transport) {
		at = own->first;
		own->first = 0;
	} else if (own->popped != own->pushed) {
		if (own->pushed - own->popped <= READY_RING)
			at = own->ready[own->popped & (READY_RING - 1)];
		else
			count_event(EVENT_READY_OVERFLOW, 1, 1);
		own->popped++;
	}
	if (at)
		passed(STAGE_WAIT, transport, at, bpf_ktime_get_ns());
	return 0;
}
