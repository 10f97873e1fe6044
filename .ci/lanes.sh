# Lanes of checks, for the scripts `run` and `nightly`. A lane that fails does not stop those after it.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=true PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONDONTWRITEBYTECODE # each of thousands of processes would compile what it imports

times=() failed=()

# lane TITLE COMMAND...: run a command, and keep its time and whether it failed.
lane() {
  local title=$1 began=$SECONDS result=passed
  shift
  printf '\n=== %s ===\n' "$title"
  "$@" || { result=FAILED && failed+=("$title"); }
  times+=("$(printf '%5d s  %-6s  %s' $((SECONDS - began)) "$result" "$title")")
  printf -- '--- %s\n' "${times[-1]}"
}

# Print the time of each lane; fail if one failed.
finish() {
  printf '\n=== Lanes ===\n'
  printf '%s\n' "${times[@]}" "$(printf '%5d s  in all' "$SECONDS")"
  exit $((${#failed[@]} > 0))
}

# need PROGRAM PACKAGE...: install Debian packages if the machine lacks a program; nothing is upgraded.
missing=()
need() { command -v "$1" >/dev/null || missing+=("${@:2}"); }
install_missing() {
  ((${#missing[@]})) || return 0
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq -o Acquire::Retries=5 &&
    apt-get install -y -qq --no-install-recommends --no-upgrade -o Acquire::Retries=5 "${missing[@]}"
}
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv) # on Debian a package of its own
need java default-jre-headless                                      # Spark
need npm nodejs npm                                                 # Azure's storage
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
