# https://just.systems; each recipe is one command that works without just.

# Format, lints and the tests that need no driver: under a minute once built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --quiet -p vkstash --lib
    cargo test --quiet -p vkstash-layer-tests --test imports

# All checks, as in CI.
test:
    scripts/test.sh

# Costs and gains of the layer, beside the driver's own caches.
bench *ARGS:
    scripts/bench.sh {{ARGS}}

# One table: cold, through the stash, the driver's own disk cache, in memory.
demo:
    scripts/demo.sh
