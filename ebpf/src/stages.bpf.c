/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Where the time goes. A followed socket has a place in two ways:
 *
 * - With a record (request-response, one message at a time): each program writes when the newest
 *   message passed it, and nothing else. The workers have the records in their memory and read
 *   them when a transaction has ended; stages, sums and the slow ones are their affair.
 * - Without (streams, anything with several messages under way): histograms of the stretches that
 *   one packet's address or one socket's order tells.
 *
 * A packet is known by its address between two probes of one device's queue or one receive path.
 * Addresses are used again, so every entry point overwrites and every use checks.
 */
#include "bucket.h"
#include "ours.h"

/* Set before the load: whether the stages are kept as histograms. */
const volatile __u32 histograms = 0;

/*
 * Where a followed socket's stamps go: the number of its record (or none), and its worker's, whose
 * half of the range says the side. Accepted sockets inherit it.
 */
struct place {
	__u64 record;
	__u64 worker;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct place);
} places SEC(".maps");

/* One side of a flow: stamps of what it sent last, and of what it received last. */
struct record {
	__u64 at[RECORD_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} records SEC(".maps");

/* A worker's thread: when it could run, when it ran, and what it says itself. */
struct worker {
	__u64 at[WORKER_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WORKERS_MAX);
	__type(key, __u32);
	__type(value, struct worker);
} workers SEC(".maps");

/* Thread numbers of the workers, by their low bits. */
struct thread {
	__u64 number;
	__u64 worker;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct slot {
	__u64 packet;
	/* The driver has it: the next packet at this address is another one, maybe none of ours. */
	__u64 driven;
	__u64 at;
	__u64 port;
	__u64 kind;
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
 * For the histograms, stamps of one socket. `ready` is a ring for datagrams: written by the
 * softirq that queues, read by the task that takes them, each with an index of its own. TCP has
 * bytes, not datagrams: there `first` is when the oldest data that nobody has read became ready.
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

/* One for each side, stage and transport. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STAGES * 4);
	__type(key, __u32);
	__type(value, struct stage_value);
} stages SEC(".maps");

static __always_inline struct place *place_of(struct sock *sk)
{
	return bpf_sk_storage_get(&places, sk, 0, 0);
}

static __always_inline struct record *record_of(__u64 number)
{
	__u32 key = (__u32)number;

	return bpf_map_lookup_elem(&records, &key);
}

static __always_inline struct worker *worker_of(__u64 number)
{
	__u32 key = (__u32)number;

	return bpf_map_lookup_elem(&workers, &key);
}

/* 0 for TCP, 1 for UDP, 2 for what has no stages. */
static __always_inline __u64 transport_of(struct sock *sk)
{
	__u16 protocol = sk->sk_protocol;

	return protocol == PROTO_TCP ? 0 : protocol == PROTO_UDP ? 1 : 2;
}

/* Side and transport, as the histograms are numbered. */
static __always_inline __u64 kind_of(struct place *place, __u64 transport)
{
	return (place->worker >= WORKERS_MAX / 2) * 2 + transport;
}

static __always_inline void passed(__u32 stage, __u64 kind, __u64 from, __u64 to)
{
	__u32 key = stage * 4 + (__u32)(kind & 3);
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

/* What the worker said of the batch that it last gave to the kernel. */
static __always_inline void hand_over(struct record *record, struct place *place)
{
	struct worker *worker = worker_of(place->worker);

	if (worker)
		record->at[RECORD_HANDED] = worker->at[WORKER_HANDED];
}

/* When TCP that paces itself lets the next packet go, if that is still to come; else 0. */
static __always_inline __u64 held_until(struct sock *sk, __u64 now)
{
	struct tcp_sock *tcp = (void *)sk;
	__u64 until;

	if (!sk->sk_pacing_status)
		return 0;
	until = BPF_CORE_READ(tcp, tcp_wstamp_ns);
	return until > now ? until : 0;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_sendmsg_locked__1, struct sock *sk)
{
	struct place *place = place_of(sk);
	struct record *record;
	struct stamps *own;
	__u64 now;

	if (!place)
		return 0;
	now = bpf_ktime_get_ns();
	record = record_of(place->record);
	if (record) {
		hand_over(record, place);
		record->at[RECORD_SENT] = now;
		record->at[RECORD_PACED] = held_until(sk, now);
	}
	if (!histograms)
		return 0;
	own = bpf_sk_storage_get(&times, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (own && !own->sent)
		own->sent = now;
	return 0;
}

/*
 * A packet meets its device's queue. A discipline that paces holds TCP's until the time of
 * departure that it bears, and UDP's by an account of its own.
 */
static __always_inline void record_queued(struct sk_buff *skb, struct sock *sk,
					  struct place *place, __u64 now, __u64 transport)
{
	struct record *record = record_of(place->record);
	__u64 departs = skb->tstamp;

	if (!record)
		return;
	record->at[RECORD_QUEUED] = now;
	if (transport || !record->at[RECORD_SENT])
		hand_over(record, place);
	if (transport)
		record->at[RECORD_PACED] = sk->sk_pacing_status ? PACED_BY_QUEUE : 0;
	else if (sk->sk_pacing_status && departs > now)
		record->at[RECORD_PACED] = departs;
}

static __always_inline void sent_before(struct sock *sk, __u64 kind, __u64 now)
{
	struct stamps *own = bpf_sk_storage_get(&times, sk, 0, 0);

	if (own && own->sent) {
		passed(STAGE_SUBMIT, kind, own->sent, now);
		own->sent = 0;
	}
}

/* Of a message of ours that is a packet's, its socket's place; else nothing. */
static __always_inline struct place *sender(struct sk_buff *skb, __u64 *transport)
{
	struct sock *sk = skb->sk;
	struct place *place = sk ? place_of(sk) : 0;

	if (!place)
		return 0;
	*transport = transport_of(sk);
	if (*transport > 1 || (!*transport && !has_payload(skb)))
		return 0;
	return place;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue__1, struct sk_buff *skb)
{
	__u64 now, transport = 0;
	struct place *place = sender(skb, &transport);
	struct sock *sk = skb->sk;
	struct slot *slot;
	__u32 key;

	if (!place || !sk)
		return 0;
	now = bpf_ktime_get_ns();
	record_queued(skb, sk, place, now, transport);
	if (!histograms)
		return 0;
	key = slot_of(skb);
	slot = bpf_map_lookup_elem(&sending, &key);
	if (!slot)
		return 0;
	slot->packet = (__u64)skb;
	slot->driven = 0;
	slot->at = now;
	slot->port = sk->__sk_common.skc_num;
	slot->kind = kind_of(place, transport);
	sent_before(sk, slot->kind, now);
	return 0;
}

/* Software segmentation makes new packets: then the queue is not seen, and neither is the wire. */
static __always_inline int left_queue(struct sk_buff *skb)
{
	__u32 key = slot_of(skb);
	struct slot *slot = bpf_map_lookup_elem(&sending, &key);
	__u64 now;

	if (!slot || slot->packet != (__u64)skb || slot->driven)
		return 0;
	slot->driven = 1;
	now = bpf_ktime_get_ns();
	passed(STAGE_QUEUE, slot->kind, slot->at, now);
	slot->at = now;
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit__1, struct sk_buff *skb)
{
	__u64 transport = 0;
	struct record *record;
	struct place *place;

	if (histograms)
		return left_queue(skb);
	place = sender(skb, &transport);
	record = place ? record_of(place->record) : 0;
	if (record)
		record->at[RECORD_DRIVEN] = bpf_ktime_get_ns();
	return 0;
}

/*
 * For the records it is enough to remember every packet: whose it is turns out when it is queued
 * at its socket, and to find out here would cost more than to remember.
 */
static __always_inline int arrived(struct sk_buff *skb)
{
	__u32 key = slot_of(skb);
	struct slot *slot = bpf_map_lookup_elem(&receiving, &key);

	if (slot) {
		slot->packet = (__u64)skb;
		slot->at = bpf_ktime_get_ns();
	}
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

	if (!histograms)
		return arrived(skb);
	if (!ports_of(skb, port) || (!port_is_ours(port[0]) && !port_is_ours(port[1])))
		return 0;
	now = bpf_ktime_get_ns();
	slot = bpf_map_lookup_elem(&sending, &key);
	/* What comes back from the wire must also bear the port that it was sent from. */
	if (slot && slot->packet == (__u64)skb && slot->driven && slot->port == port[0]) {
		passed(STAGE_WIRE, slot->kind, slot->at, now);
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

static __always_inline void ready_since(struct sock *sk, __u64 transport, __u64 now)
{
	struct stamps *own = bpf_sk_storage_get(&times, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (own && transport) {
		own->ready[own->pushed & (READY_RING - 1)] = now;
		own->pushed++;
	} else if (own && !own->first) {
		own->first = now;
	}
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sk_data_ready__1, struct sock *sk)
{
	struct place *place = place_of(sk);
	struct record *record;
	struct sk_buff *last;
	struct slot *slot;
	__u64 now, transport, at = 0;
	__u32 key;

	if (!place)
		return 0;
	transport = transport_of(sk);
	if (transport > 1 || sk->__sk_common.skc_state == TCP_LISTEN)
		return 0;
	now = bpf_ktime_get_ns();
	if (histograms)
		ready_since(sk, transport, now);
	last = sk->sk_receive_queue.prev;
	key = slot_of(last);
	slot = bpf_map_lookup_elem(&receiving, &key);
	if (slot && slot->packet == (__u64)last) {
		at = slot->at;
		if (histograms)
			passed(STAGE_RECEIVE, kind_of(place, transport), at, now);
		slot->packet = 0;
	} else {
		/* Merged into the packet before it, or read by the time we look. */
		count_event(EVENT_RECEIVE_MISSED, 1, 1);
	}
	record = record_of(place->record);
	if (record) {
		record->at[RECORD_ARRIVED] = at;
		record->at[RECORD_READY] = now;
	}
	return 0;
}

/* When the oldest datagram, or the oldest byte, that nobody had read became ready; or 0. */
static __always_inline __u64 taken_since(struct stamps *own, __u64 transport)
{
	__u64 at = 0;

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
	return at;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length__3, struct sock *sk, int length, int flags)
{
	struct place *place;
	struct record *record;
	struct worker *worker;
	struct stamps *own;
	__u64 at, now, transport;

	if (length <= 0 || flags & MSG_PEEK)
		return 0;
	place = place_of(sk);
	if (!place)
		return 0;
	now = bpf_ktime_get_ns();
	record = record_of(place->record);
	if (record) {
		worker = worker_of(place->worker);
		record->at[RECORD_RUNNABLE] = worker ? worker->at[WORKER_RUNNABLE] : 0;
		record->at[RECORD_RUNNING] = worker ? worker->at[WORKER_RUNNING] : 0;
		record->at[RECORD_COPIED] = now;
	}
	if (!histograms)
		return 0;
	own = bpf_sk_storage_get(&times, sk, 0, 0);
	transport = transport_of(sk);
	at = own ? taken_since(own, transport) : 0;
	if (at)
		passed(STAGE_WAIT, kind_of(place, transport), at, now);
	return 0;
}
