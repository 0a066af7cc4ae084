# https://just.systems; each recipe is one command that works without just.

# Format, lints and the unit tests of all crates, but for those of the store that try every byte: under a minute once built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo nextest run --workspace --profile quick --test-threads 4

# All checks, as in CI.
test:
    scripts/test.sh

# Costs and gains of the layer, beside the driver's own caches.
bench *ARGS:
    scripts/bench.sh {{ARGS}}

# One table: cold, through the stash, the driver's own disk cache, in memory.
demo:
    scripts/demo.sh
