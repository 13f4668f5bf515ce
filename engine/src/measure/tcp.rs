//! What TCP_INFO of the sockets says together.

use crate::record::TcpReport;

/// What one socket said. Fields that a kernel may lack are none there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpSample {
    /// Congestion control in force.
    pub congestion: Option<String>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Lowest round-trip time, microseconds; the kernel says `u32::MAX` while it has none.
    pub min_rtt_us: Option<u32>,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Maximum segment size for sending, bytes.
    pub snd_mss: u32,
    /// Estimate of the other side's segment size, bytes.
    pub rcv_mss: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Delivery rate, bytes per second.
    pub delivery_rate_bytes: Option<u64>,
    /// Segments sent.
    pub segs_out: Option<u32>,
    /// Segments received.
    pub segs_in: Option<u32>,
    /// Segments with data sent.
    pub data_segs_out: Option<u32>,
    /// Segments with data received.
    pub data_segs_in: Option<u32>,
    /// Time with data outstanding, microseconds.
    pub busy_us: Option<u64>,
    /// Time limited by the receiver's window, microseconds.
    pub rwnd_limited_us: Option<u64>,
    /// Time limited by the send buffer, microseconds.
    pub sndbuf_limited_us: Option<u64>,
}

impl TcpSample {
    /// What was counted since `baseline`, an earlier sample of the same socket: takes out what
    /// the flow's hello added. States (times of round trips, windows, sizes) are the later ones.
    ///
    /// The kernel's segment counters have 32 bits and wrap, after some 6 TB with full segments;
    /// the difference is right up to one wrap.
    #[must_use]
    pub fn since(&self, baseline: &TcpSample) -> TcpSample {
        TcpSample {
            total_retrans: self.total_retrans.wrapping_sub(baseline.total_retrans),
            segs_out: wrapped(self.segs_out, baseline.segs_out),
            segs_in: wrapped(self.segs_in, baseline.segs_in),
            data_segs_out: wrapped(self.data_segs_out, baseline.data_segs_out),
            data_segs_in: wrapped(self.data_segs_in, baseline.data_segs_in),
            busy_us: grown(self.busy_us, baseline.busy_us),
            rwnd_limited_us: grown(self.rwnd_limited_us, baseline.rwnd_limited_us),
            sndbuf_limited_us: grown(self.sndbuf_limited_us, baseline.sndbuf_limited_us),
            ..self.clone()
        }
    }
}

fn wrapped(now: Option<u32>, before: Option<u32>) -> Option<u32> {
    now.map(|now| now.wrapping_sub(before.unwrap_or(0)))
}

fn grown(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
}

/// Folds the samples of a group's sockets on one side into a report.
#[derive(Clone, Debug, Default)]
pub struct TcpFold {
    report: TcpReport,
    flows: u64,
    rtt_us: u64,
    cwnd: u64,
}

impl TcpFold {
    /// No socket yet.
    pub fn new() -> TcpFold {
        TcpFold::default()
    }

    /// A socket's sample, less its baseline.
    pub fn add(&mut self, sample: &TcpSample) {
        self.flows += 1;
        self.rtt_us += u64::from(sample.rtt_us);
        self.cwnd += u64::from(sample.cwnd);
        let report = &mut self.report;
        if let Some(name) = &sample.congestion
            && !report.congestion.split(", ").any(|known| known == name)
        {
            if !report.congestion.is_empty() {
                report.congestion.push_str(", ");
            }
            report.congestion.push_str(name);
        }
        let min_rtt = sample
            .min_rtt_us
            .filter(|&us| us != u32::MAX)
            .map(u64::from);
        report.min_rtt_us = report.min_rtt_us.into_iter().chain(min_rtt).min();
        if report.mss_send == 0 || sample.snd_mss < report.mss_send {
            report.mss_send = sample.snd_mss;
        }
        report.mss_receive = report.mss_receive.max(sample.rcv_mss);
        report.retransmits += u64::from(sample.total_retrans);
        report.delivery_rate_bps += sample.delivery_rate_bytes.unwrap_or(0).saturating_mul(8);
        report.segments_sent += u64::from(sample.segs_out.unwrap_or(0));
        report.segments_received += u64::from(sample.segs_in.unwrap_or(0));
        report.data_segments_sent += u64::from(sample.data_segs_out.unwrap_or(0));
        report.data_segments_received += u64::from(sample.data_segs_in.unwrap_or(0));
        report.busy_us += sample.busy_us.unwrap_or(0);
        report.receiver_limited_us += sample.rwnd_limited_us.unwrap_or(0);
        report.send_buffer_limited_us += sample.sndbuf_limited_us.unwrap_or(0);
    }

    /// The report; none where there was no socket. Means are over the sockets, the sending
    /// segment size is the smallest and the receiving one the largest. What is queued at the
    /// close and the host's SYN retransmissions are the caller's to add.
    pub fn report(&self) -> Option<TcpReport> {
        (self.flows > 0).then(|| TcpReport {
            rtt_us: self.rtt_us as f64 / self.flows as f64,
            cwnd_segments: self.cwnd as f64 / self.flows as f64,
            ..self.report.clone()
        })
    }
}

#[cfg(test)]
mod tests;
