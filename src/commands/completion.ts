import { Argument, Command } from 'commander'

/** `svc completion`: prints a script that makes the shell complete commands and options. */
export function completionCommand(): Command {
  return new Command('completion')
    .description('Print a completion script for the shell.')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh']))
    .addHelpText(
      'after',
      '\nExample:\n  svc completion bash > ~/.local/share/bash-completion/completions/svc',
    )
    .action((shell: string, _options: unknown, command: Command) => {
      const root = command.parent ?? command
      // zsh can run completion functions of bash.
      const start = shell === 'zsh' ? 'autoload -U +X bashcompinit && bashcompinit\n' : ''
      process.stdout.write(`${start}${renderScript(root)}`)
    })
}

/** Renders the bash script. It finds the command before the cursor, and completes its subcommands and options. */
function renderScript(root: Command): string {
  const cases = listCommands(root, '').map(([path, words]) => `    '${path}') words='${words.join(' ')}' ;;`)
  return `_svc() {
  local path='' word words=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) ;; *) path="$path $word" ;; esac
  done
  # Drop words from the end until a command remains: they are its arguments.
  while :; do
    case "\${path# }" in
${cases.join('\n').replaceAll(/^ {4}/gm, '      ')}
    esac
    [ -n "$words" ] || [ -z "$path" ] && break
    path="\${path% *}"
  done
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _svc svc
`
}

/** Returns each command's path, such as `account create`, with its subcommands and options. */
function listCommands(command: Command, path: string): [string, string[]][] {
  const options = command.options.map(({ long }) => long ?? '').filter((name) => name !== '')
  const words = [...command.commands.map((child) => child.name()), ...options, '--help']
  const below = command.commands.flatMap((child) => listCommands(child, `${path} ${child.name()}`.trim()))
  return [[path, words], ...below]
}
