//! Counters of network devices, from /sys/class/net/*/statistics.

use std::fs;
use std::path::Path;

use super::Reading;

/// Reads every device that is there.
pub(super) fn read(root: &Path, reading: &mut Reading) {
    let Ok(devices) = fs::read_dir(root.join("sys/class/net")) else {
        return;
    };
    for device in devices.flatten() {
        let source = format!("nic.{}", device.file_name().to_string_lossy());
        let Ok(files) = fs::read_dir(device.path().join("statistics")) else {
            continue;
        };
        for file in files.flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            if let Ok(value) = text.trim().parse() {
                reading.put(&source, &file.file_name().to_string_lossy(), value);
            }
        }
    }
}
