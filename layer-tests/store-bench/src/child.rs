//! Processes that run one job.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::jobs::{Found, Job};

/// A process that runs a job. Killed when dropped.
pub struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
    name: &'static str,
}

impl Worker {
    /// Starts a job in a process.
    pub fn start(job: &Job) -> Result<Worker, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("job")
            .arg(serde_json::to_string(job)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Worker { child, output, name: job.engine.name() })
    }

    /// Waits until the job prints that it is ready.
    pub fn ready(mut self) -> Result<Worker, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line == "ready\n" { Ok(self) } else { Err(format!("{}: the job failed", self.name).into()) }
    }

    /// Closes its standard input, and waits for its results.
    pub fn finish(mut self) -> Result<Found, Failure> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("{}: the job failed ({status})", self.name).into());
        }
        Ok(serde_json::from_str(&text)?)
    }

    /// `kill -9`.
    pub fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a job to its end.
pub fn run(job: &Job) -> Result<Found, Failure> {
    Worker::start(job)?.finish()
}
