# https://just.systems; each recipe is one command that can be typed without it.

# Format, lints and the tests that need no driver: under a minute once built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --quiet -p vkstash --lib
    cargo test --quiet -p vkstash-layer-tests --test imports

# Everything, as CI does.
test:
    scripts/test.sh

# What it costs and what it gains, beside the driver's own caches.
bench *ARGS:
    scripts/bench.sh {{ARGS}}

# One table: cold, through the stash, the driver's own disk cache, in memory.
demo:
    scripts/demo.sh
