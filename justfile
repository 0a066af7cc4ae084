# https://just.systems; each recipe is one command that works without just.

# Format, lints and the unit tests of all crates, but for those that try every byte, or many processes: under a minute once built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo nextest run --workspace --lib --bins --test sources --profile quick --test-threads 6

# All checks, as in CI.
test:
    scripts/test.sh

# Costs and gains of the layer, beside the driver's own caches.
bench *ARGS:
    scripts/bench.sh {{ARGS}}

# One table: cold, through the stash, the driver's own disk cache, in memory.
demo:
    scripts/demo.sh
