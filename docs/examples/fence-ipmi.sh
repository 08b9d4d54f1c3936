#!/bin/sh
# For mared --fence-command: turns the host $1 off through its BMC, and says so only when the BMC
# does. Can be run any number of times. Needs ipmitool, and on mared's machine:
#   /etc/mare/bmc            lines "HOST BMC-ADDRESS USER"
#   /etc/mare/bmc-password   one line, mode 0600
set -u
places=${MARE_BMC_DIRECTORY:-/etc/mare}

line=$(awk -v host="$1" '$1 == host { print $2, $3; exit }' "$places/bmc") || exit 1
if [ -z "$line" ]; then
  echo "no BMC of host $1 in $places/bmc" >&2
  exit 1
fi
bmc=${line% *}
user=${line#* }

# --foreground: in this process group, which mared kills when its own time is over.
power() {
  timeout --foreground 3 ipmitool -I lanplus -H "$bmc" -U "$user" -f "$places/bmc-password" \
    chassis power "$1"
}

# Some BMCs refuse to turn off what is off: what counts is what they say afterwards.
power off
while status=$(power status); do
  echo "$status"
  case $status in
    *"is off"*) exit 0 ;;
  esac
  sleep 1
done
exit 1
