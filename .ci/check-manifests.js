// Validates Kubernetes manifests against the schemas of the package kubernetes-models. Arguments: the folder where it is
// installed, and the manifests.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { parseAllDocuments } from 'yaml'

const [folder = '', ...files] = process.argv.slice(2)
const require = createRequire(join(resolve(folder), 'package.json'))
let checked = 0

for (const file of files) {
  for (const document of parseAllDocuments(await readFile(file, 'utf8'))) {
    if (document.errors.length > 0) throw new Error(`${file}: ${document.errors[0]}`)
    const { apiVersion, kind, ...content } = document.toJS()
    const models = require(`kubernetes-models/${apiVersion}`)
    new models[kind](content).validate()
    checked += 1
  }
}
if (checked === 0) throw new Error('There is no manifest to check.')
process.stdout.write(`${checked} manifests are valid.\n`)
