//! Messages to the user's systemd about the service. Where there is none, or it does not answer in time, nothing
//! happens: it reads the files when it starts.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATH, SERVICE, TIMER};
use crate::system::start;

/// For all that is told in a row.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

/// The files are there: what they enable begins now.
pub(crate) fn start() {
    tell(&[&["daemon-reload"], &["start", "--no-block", TIMER, PATH]]);
}

/// The files will be gone. Whether that was heard.
pub(crate) fn stop() -> bool {
    tell(&[&["stop", "--no-block", TIMER, PATH, SERVICE]])
}

/// The files are gone.
pub(crate) fn forget() {
    tell(&[&["daemon-reload"]]);
}

fn tell(calls: &[&[&str]]) -> bool {
    let until = Instant::now() + PATIENCE;
    calls.iter().all(|arguments| succeeds(arguments, until))
}

fn succeeds(arguments: &[&str], until: Instant) -> bool {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start::restore_in(&mut command);
    let Ok(mut child) = command.spawn() else { return false };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < until => thread::sleep(STEP),
            // It hangs; or nobody may wait for children here.
            Ok(None) | Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}
