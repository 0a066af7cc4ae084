#!/bin/sh
# window.sh none|key|term|moving PICTURE PROGRAM...: runs a program inside an X server that keeps its screen (640
# by 480) in the file PICTURE. One that draws until it is ended ("none": it ends by itself): waits until it
# shows something, prints a hash of the screen (not of one that moves), and ends it by the Escape key ("key") or
# by SIGTERM. The program's exit status goes to PICTURE.status: xvfb-run answers with its own when an X server
# that goes away is too slow for it.
set -u
end=$1 picture=$2
shift 2

if [ "$end" = none ]; then
    "$@"
    echo $? >"$picture.status"
    exit
fi

# The pixels alone: what stands before them is not always initialised.
screen() { tail -c $((640 * 480 * 4)) "$picture" | sha256sum | cut -c 1-16; }

before=$(screen)
"$@" &
program=$!
tries=0
while [ "$(screen)" = "$before" ] && [ "$tries" -lt 300 ] && kill -0 "$program" 2>/dev/null; do
    sleep 0.1
    tries=$((tries + 1))
done
# A window can appear before the first frame; give that its time.
sleep 1
if [ "$end" != moving ]; then
    tries=0 now=$(screen) last=
    while [ "$now" != "$last" ] && [ "$tries" -lt 20 ]; do
        sleep 0.5
        last=$now now=$(screen)
        tries=$((tries + 1))
    done
    echo "screen: $now"
fi
# A program that is killed leaves no report where there was nothing to store.
# Not to standard error: Ubuntu's xvfb-run takes that for output.
grep -q libVkLayer_vkstash "/proc/$program/maps" && : >"$picture.layer"
if [ "$end" = key ]; then xdotool key Escape; else kill -s TERM "$program"; fi
wait "$program"
echo $? >"$picture.status"
