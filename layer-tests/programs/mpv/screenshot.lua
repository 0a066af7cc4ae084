-- Stores the window as it is drawn once the first picture is there.
local options = { file = "" }
require("mp.options").read_options(options, "screenshot")

mp.register_event("playback-restart", function()
    mp.commandv("screenshot-to-file", options.file, "window")
end)
