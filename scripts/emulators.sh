#!/usr/bin/env bash
# Installs an emulator of Azure Blob Storage (Azurite) and a WebDAV server (WsgiDAV) into the target folder, from the
# registries of npm and of Python, and tries vkstash-remote on both (crates/remote/tests/emulators.rs). Needs npm,
# python3 with its venv, and 370 MB. scripts/test.sh does not run this.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

folder=$(target_folder)/emulators
azurite=3.37.0 webdav=4.3.5 uvicorn=0.54.0 a2wsgi=1.10.10
mkdir -p "$folder"

have npm || fail "no npm here, which installs Azurite"
if [ ! -x "$folder/node_modules/.bin/azurite-blob" ]; then
    say "installing Azurite $azurite"
    npm install --prefix "$folder" --no-audit --no-fund --silent "azurite@$azurite" ||
        fail "Azurite cannot be installed"
fi

if [ ! -x "$folder/python/bin/uvicorn" ]; then
    say "installing WsgiDAV $webdav"
    virtual_environment "$folder/python" || fail "no virtual environment of Python can be made here"
    "${pip[@]}" "wsgidav==$webdav" "uvicorn==$uvicorn" "a2wsgi==$a2wsgi" || fail "WsgiDAV cannot be installed"
fi

# Makes the container of the test. The signature is that of a request with a shared key, for the account that the test
# gives Azurite.
cat >"$folder/container.py" <<'PYTHON'
import base64, hmac, http.client, sys
from email.utils import formatdate

headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
signed = "PUT" + 12 * "\n" + "".join(f"{name}:{value}\n" for name, value in headers.items())
signed += "/vkstash/vkstash/container\nrestype:container"
digest = hmac.digest(base64.b64decode("dmtzdGFzaA=="), signed.encode(), "sha256")
headers["Authorization"] = "SharedKey vkstash:" + base64.b64encode(digest).decode()
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("PUT", "/vkstash/container?restype=container", headers=headers)
sys.exit(connection.getresponse().status not in (201, 409))
PYTHON

say "running vkstash-remote over each"
cd "$repository"
cargo test -p vkstash-remote --test remote emulators:: -- --nocapture
