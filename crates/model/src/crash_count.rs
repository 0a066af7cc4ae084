//! The payload of a crash count: how many processes died while a driver looked at the artifact of a key, and how many
//! ended while one compiled its pipeline.

/// Processes that ended while a driver compiled a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileDeaths {
    /// How many, at least 1.
    pub deaths: u8,
    /// VkShaderStageFlags.
    pub stages: u32,
    /// When the last one ended, in Unix milliseconds.
    pub unix_ms: u64,
}

/// The crash count of a key other than that of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashCount {
    /// Processes that died while a driver looked at the artifact.
    pub of_artifact: u8,
    /// Processes that ended while a driver compiled the pipeline. None: none has since the pipeline was last compiled.
    pub compile: Option<CompileDeaths>,
}

impl CrashCount {
    /// Reads a payload. A payload that is too short, or of a later version, counts nothing.
    pub fn of(payload: &[u8]) -> CrashCount {
        let of_artifact = payload.first().copied().unwrap_or(0);
        let compile = match *payload {
            [_, deaths, a, b, c, d, ref time @ ..] if deaths > 0 => {
                let of = |time| CompileDeaths {
                    deaths,
                    stages: u32::from_le_bytes([a, b, c, d]),
                    unix_ms: u64::from_le_bytes(time),
                };
                time.try_into().ok().map(of)
            }
            _ => None,
        };
        CrashCount { of_artifact, compile }
    }

    /// The payload.
    pub fn record(self) -> Box<[u8]> {
        let of_compile = self.compile.into_iter().flat_map(|CompileDeaths { deaths, stages, unix_ms }| {
            std::iter::once(deaths).chain(stages.to_le_bytes()).chain(unix_ms.to_le_bytes())
        });
        std::iter::once(self.of_artifact).chain(of_compile).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_count_is_read_as_it_was_written_and_older_ones_are_read_too() {
        let compile = Some(CompileDeaths { deaths: 2, stages: 0x20, unix_ms: 1_000_000_000_000 });
        for count in [CrashCount { of_artifact: 1, compile }, CrashCount { of_artifact: 3, compile: None }] {
            assert_eq!(CrashCount::of(&count.record()), count);
        }
        assert_eq!(CrashCount::of(&[2]), CrashCount { of_artifact: 2, compile: None });
        for no_compile in
            [&[][..], &[0], &[0, 1, 2, 3, 4], &[0; 14], &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(CrashCount::of(no_compile), CrashCount::default(), "{no_compile:?}");
        }
    }
}
