#!/bin/sh
# window.sh key|term PICTURE PROGRAM...: runs a program that draws until it is ended, inside an X server that
# keeps its screen (640 by 480) in the file PICTURE. Waits until the program shows something, prints a hash of
# the screen, and ends the program by the Escape key or by SIGTERM. Its exit status is the program's.
set -u
end=$1 picture=$2
shift 2

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
[ "$end" = term ] || echo "screen: $(screen)"
case $end in
key) xdotool key Escape ;;
term) kill -s TERM "$program" ;;
esac
wait "$program"
