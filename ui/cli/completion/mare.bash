# Bash completion of mare. Names of hosts, pools, VMs, jobs and operations come from mared; when it
# does not answer there are just none.

_mare_names() {
  timeout 2 mare -q -o name "$1" list 2>/dev/null
}

_mare() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local noun="" verb="" word i skip=""
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == -- ]] && { compopt -o default; return; }
    if [[ -n $skip ]]; then skip=""; continue; fi
    case $word in
      --url|--token-file|-o|--output|--timeout) skip=yes ;;
      -*) ;;
      *) if [[ -z $noun ]]; then noun=$word; elif [[ -z $verb ]]; then verb=$word; fi ;;
    esac
  done

  case $previous in
    --token-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    -o|--output) COMPREPLY=($(compgen -W "table wide json name" -- "$current")); return ;;
    --to|--host|--hosts) [[ $noun == plan || $noun == job ]] && return; COMPREPLY=($(compgen -W "$(_mare_names host)" -- "$current")); return ;;
    --drain|--spread|--pack) return ;;
    --from) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --project) COMPREPLY=($(compgen -W "$(_mare_names project)" -- "$current")); return ;;
    --pool) COMPREPLY=($(compgen -W "$(_mare_names pool)" -- "$current")); return ;;
    --vm) COMPREPLY=($(compgen -W "$(_mare_names vm)" -- "$current")); return ;;
    --strategy)
      words="pre-copy rate-controlled throttled compressed post-copy hybrid stop-and-copy checkpoint-restart none"
      COMPREPLY=($(compgen -W "$words" -- "$current")); return ;;
    --priority) COMPREPLY=($(compgen -W "least-stall least-traffic by-deadline" -- "$current")); return ;;
    --by) COMPREPLY=($(compgen -W "strategy pair program" -- "$current")); return ;;
    --since) COMPREPLY=($(compgen -W "1h 24h 7d" -- "$current")); return ;;
    --drop-page-cache) COMPREPLY=($(compgen -W "yes no" -- "$current")); return ;;
    --mode) COMPREPLY=($(compgen -W "manual partial automatic" -- "$current")); return ;;
    --moment) COMPREPLY=($(compgen -W "now trough safe-point" -- "$current")); return ;;
    --at-limit) COMPREPLY=($(compgen -W "cancel stop-and-copy post-copy" -- "$current")); return ;;
    --checkpoint-every) COMPREPLY=($(compgen -W "10s 60s 10m optimal" -- "$current")); return ;;
    --checkpoint-mode) COMPREPLY=($(compgen -W "full incremental" -- "$current")); return ;;
    --checkpoints-max-age) COMPREPLY=($(compgen -W "1h 24h 7d" -- "$current")); return ;;
    --topics)
      COMPREPLY=($(compgen -W "host pool vm job operation migration cluster" -- "$current")); return ;;
    --url|--timeout|--remaining|--checkpoint|--checkpoints-kept|--checkpoint-chain|--safe-point-wait|--bandwidth|--max-downtime|--time-limit|--within|--added-job-time|--reason|--name|--address|-n|-m|--memory|-e|--env) return ;;
  esac

  local policy="--priority --strategy --bandwidth --max-downtime --time-limit --at-limit --drop-page-cache"
  local words="" globals="--url --token-file -o --output --wait --no-wait --timeout -q --quiet --help"
  case $noun:$verb in
    :) words="host pool project vm job migrate explain forecast migration operation events rebalance plan lab image version" ;;
    host:) words="list show add remove drain evacuate activate" ;;
    pool:) words="list show create scale autoscale metric set-policy delete" ;;
    vm:) words="list show memory start stop" ;;
    job:) words="submit list show cancel output checkpoint checkpoints restart wait spread pack" ;;
    migration:) words="list show cancel report" ;;
    operation:) words="list show cancel wait" ;;
    lab:) words="up down status exec rate logs kill-agent start-agent stop-mared start-mared nfs" ;;
    image:) words="build list show delete" ;;
    host:add) words="--address" ;;
    host:drain) words="$(_mare_names host) --dry-run $policy" ;;
    host:evacuate) words="$(_mare_names host) --within --reason --dry-run" ;;
    host:show|host:remove|host:activate) words=$(_mare_names host) ;;
    pool:create) words="--size --memory --vcpus --image --hosts --project $policy" ;;
    project:) words="list show quota" ;;
    project:show) words=$(_mare_names project) ;;
    project:quota) words="$(_mare_names project) --vms --memory --hosts --none" ;;
    pool:scale) words="$(_mare_names pool) --best-effort" ;;
    pool:autoscale)
      words="$(_mare_names pool) --target --min --max --source --prometheus-url --query --query-timeout --total --tolerance --stale-after --up-window"
      words="$words --up-cooldown --up-step --down-window --down-cooldown --down-step --off" ;;
    pool:metric) words=$(_mare_names pool) ;;
    pool:set-policy) words="$(_mare_names pool) --reset $policy" ;;
    pool:show) words=$(_mare_names pool) ;;
    pool:delete) words="$(_mare_names pool) --force" ;;
    vm:list) words="--pool --host" ;;
    vm:show|vm:memory) words=$(_mare_names vm) ;;
    vm:start) words="$(_mare_names vm) --host" ;;
    vm:stop) words="$(_mare_names vm) --force" ;;
    job:submit) words="$(_mare_names pool) --ranks --name --env --checkpoint-every --checkpoints-kept --checkpoints-max-age --checkpoint-mode --checkpoint-chain --checkpoint-partner --safe-points --safe-point-wait --follow --cancel-on-interrupt --" ;;
    job:show|job:cancel|job:wait|job:checkpoint|job:checkpoints) words=$(_mare_names job) ;;
    job:spread|job:pack) words="$(_mare_names job) --hosts --remaining --force --dry-run" ;;
    job:output) words="$(_mare_names job) --follow --offset" ;;
    job:restart) words="$(_mare_names job) --checkpoint --hosts --eager" ;;
    job:list) words="--pool --state" ;;
    migrate:) words="$(_mare_names vm) --to --dry-run --force --timeout --moment --within $policy" ;;
    migrate:*) words="--to --dry-run --force --timeout --moment --within $policy" ;;
    migration:list) words="--vm" ;;
    rebalance:) words="show set --dry-run" ;;
    rebalance:set) words="--mode --threshold --hold --margin --cooldown --max-moves --rest --pool" ;;
    plan:) words="--from --rebalance --place --drain --spread --pack --hosts --best-effort --n-plus-one --no-n-plus-one --max-moves" ;;
    explain:) words="$(_mare_names migration) $(_mare_names operation)" ;;
    forecast:) words="list show accuracy" ;;
    forecast:list) words="--vm" ;;
    forecast:accuracy) words="--by --since" ;;
    forecast:show) words=$(_mare_names forecast) ;;
    migration:show|migration:cancel) words=$(_mare_names migration) ;;
    migration:report) words="$(_mare_names migration) --added-job-time" ;;
    operation:list) words="--target --kind --unfinished --limit" ;;
    operation:show|operation:cancel|operation:wait) words=$(_mare_names operation) ;;
    events:) words="--follow --topics --after --limit" ;;
  esac
  case $noun in lab|image) globals="--help" ;; esac
  [[ $current == -* ]] && words="$words $globals"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _mare mare
