#!/bin/sh
# window.sh none|key|term|moving PICTURE PROGRAM...: runs a program in an X server that keeps its screen (640 by 480) in
# the file PICTURE. With "none" the program ends by itself. Otherwise the script waits until the program shows
# something, prints a hash of the screen (except with "moving"), and ends the program by the Escape key ("key") or by
# SIGTERM ("term" and "moving"). The program's exit status goes to PICTURE.status, because xvfb-run returns its own
# status if the X server ends slowly.
set -u
end=$1 picture=$2
shift 2

if [ "$end" = none ]; then
    "$@"
    echo $? >"$picture.status"
    exit
fi

# Only the pixels: the bytes before them are not always initialised.
screen() { tail -c $((640 * 480 * 4)) "$picture" | sha256sum | cut -c 1-16; }

before=$(screen)
"$@" &
program=$!
tries=0
while [ "$(screen)" = "$before" ] && [ "$tries" -lt 300 ] && kill -0 "$program" 2>/dev/null; do
    sleep 0.1
    tries=$((tries + 1))
done
# A window can appear before its first frame, so wait for that frame.
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
# Records that the layer was loaded, because a killed program without records leaves no report. Not on standard error:
# Ubuntu's xvfb-run treats that as output.
grep -q libVkLayer_vkstash "/proc/$program/maps" && : >"$picture.layer"
if [ "$end" = key ]; then xdotool key Escape; else kill -s TERM "$program"; fi
wait "$program"
echo $? >"$picture.status"
