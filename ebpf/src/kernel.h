/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The few kernel fields that the programs read. Each access is relocated against the running
 * kernel's BTF when the object is loaded, so only the names must be right here: order, size and
 * neighbours need not. Never add a field that one of the supported kernels lacks without guarding
 * its use by bpf_core_field_exists.
 */
#ifndef RINGPERF_KERNEL_H
#define RINGPERF_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	possible_net_t nd_net;
	int ifindex;
};

struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
};

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	__u32 sk_pacing_status;
	__u16 sk_protocol;
};

struct tcp_sock {
	__u64 tcp_wstamp_ns;
};

struct task_struct {
	int pid;
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	__s64 tstamp;
	unsigned int len;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
};

#pragma clang attribute pop

#endif
