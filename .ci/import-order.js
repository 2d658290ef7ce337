import { dirname, relative, resolve } from 'node:path'

/**
 * An oxlint plugin with one rule, `rooms/order`: a file of src/ imports only from its own room and from rooms below it.
 *
 * The option in .oxlintrc.json is the order of the rooms, from top to bottom. Rooms in one inner list do not know each
 * other. A room is a file or folder of src/, and a file belongs to the room with the longest path that contains it. So
 * `"web/pages", "web"` are two rooms, and the first one may import from the second.
 */
export default {
  meta: { name: 'rooms' },
  rules: { order: { meta: { schema: [{ type: 'array' }] }, create } },
}

const source = resolve(import.meta.dirname, '../src')
const pathOf = (file) => relative(source, file).replaceAll('\\', '/')

function create(context) {
  const file = context.physicalFilename
  const importer = pathOf(file)
  if (importer.startsWith('../')) return {}

  const floors = context.options[0].map((floor) => [floor].flat())
  const rooms = floors.flat().sort((one, other) => other.length - one.length)
  const roomOf = (path) => rooms.find((room) => path === room || path.startsWith(`${room}/`))
  const floorOf = (room) => floors.findIndex((floor) => floor.includes(room))

  const own = roomOf(importer)
  if (own === undefined) {
    const message = `${importer} is in no room: name its room in the order of rooms in .oxlintrc.json.`
    return { Program: (node) => context.report({ node, message }) }
  }

  function check({ source: specifier }) {
    if (!String(specifier?.value).startsWith('.')) return
    const imported = pathOf(resolve(dirname(file), specifier.value))
    const room = roomOf(imported)
    // The imported file reports that it is in no room.
    if (room === undefined || room === own || floorOf(room) > floorOf(own)) return
    const message = `${importer} may not import ${imported}: in the order of rooms in .oxlintrc.json, ${room} is not below ${own}.`
    context.report({ node: specifier, message })
  }
  return {
    ImportDeclaration: check,
    ExportNamedDeclaration: check,
    ExportAllDeclaration: check,
    ImportExpression: check,
    TSImportType: check,
  }
}
