/** Imports a module as Node does. The `import` of a test would transform it first. */
exports.load = (url) => import(url)
