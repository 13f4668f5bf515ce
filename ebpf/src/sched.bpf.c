/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * When a worker's thread could run and when it did. These tracepoints see every thread of the
 * system, so finding out that it is not one of ours must cost next to nothing: one look into an
 * array.
 */
#include "stages.bpf.c"

static __always_inline struct worker *worker_thread(struct task_struct *task)
{
	__u64 number = (__u32)task->pid;
	__u32 key = number & (THREADS - 1);
	struct thread *thread = bpf_map_lookup_elem(&threads, &key);

	if (!thread || !number || thread->number != number)
		return 0;
	return worker_of(thread->worker);
}

/* The lowest bit tells a thread that was woken (0) from one that had to give way (1). */
static __always_inline __u64 marked(__u64 at, _Bool preempted)
{
	return (at & ~1ULL) | preempted;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking__1, struct task_struct *task)
{
	struct worker *worker = worker_thread(task);

	if (worker)
		worker->at[WORKER_RUNNABLE] = marked(bpf_ktime_get_ns(), 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch__3, _Bool preempt, struct task_struct *before, struct task_struct *next)
{
	struct worker *worker = worker_thread(next);

	if (worker)
		worker->at[WORKER_RUNNING] = bpf_ktime_get_ns();
	worker = preempt ? worker_thread(before) : 0;
	if (worker)
		worker->at[WORKER_RUNNABLE] = marked(bpf_ktime_get_ns(), 1);
	return 0;
}
