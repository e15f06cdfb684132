# Sourced by quickstart and check: installs Debian packages that are missing, and says which.      packages gcc cmake ...
# Wants LOG, a file for what apt says.

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# apt's lists, once a run
lists()
{
    [ -z "${LISTS_FRESH:-}" ] || return 0
    echo "Reading the package lists ..."
    root apt-get update -q < /dev/null > "$LOG" 2>&1 || stop "apt-get update failed: $(tail -n 3 "$LOG")"
    LISTS_FRESH=1
}

packages()
{
    local missing="" package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    say "Packages: $*"
    if [ -z "$missing" ]; then echo "All are here."; return; fi
    echo "To be installed with apt:$missing"
    [ "$(id -u)" = 0 ] || command -v sudo > /dev/null || stop "needs root or sudo to install$missing"
    lists
    # shellcheck disable=SC2086
    root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing < /dev/null > "$LOG" 2>&1 ||
        stop "apt-get could not install$missing: $(tail -n 3 "$LOG")"
}
