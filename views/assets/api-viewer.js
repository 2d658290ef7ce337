/*
 * Shows the OpenAPI description with Swagger UI, instead of the reference that the server rendered. If a part cannot be
 * loaded, the reference stays.
 */
const place = document.querySelector('#api-viewer')
const { description, styles } = place.dataset
/** Loads the stylesheets. They are not in the page itself, so the first paint does not wait for them. */
const loads = styles.split(' ').map(
  (href) =>
    new Promise((resolve, reject) => {
      const link = document.createElement('link')
      Object.assign(link, { rel: 'stylesheet', href, onload: resolve, onerror: reject })
      document.head.append(link)
    }),
)

/** Changes of Swagger UI: it has no elements to send requests, and mistakes in its HTML are corrected. */
const plugin = ({ React: { createElement, useLayoutEffect, useRef }, getComponent }) => ({
  components: {
    Reference: () =>
      createElement(
        'div',
        { className: 'swagger-ui' },
        createElement(getComponent('SvgAssets')),
        createElement(getComponent('operations', true)),
      ),
    // A link in a button is invalid HTML. The button itself changes the URL.
    DeepLink: ({ text }) => createElement('span', null, text),
    JumpToPath: () => null,
    CopyToClipboardBtn: () => null,
    authorizeOperationBtn: () => null,
    // Remove the disabled fields: requests cannot be sent.
    JsonSchemaForm: () => null,
  },
  wrapComponents: {
    // The toggle of a schema without a title has no text, so it gets a label.
    JSONSchema202012Accordion: (Accordion) => (props) => {
      const box = useRef(null)
      useLayoutEffect(() => {
        const button = box.current.querySelector('button')
        if (button.textContent === '') button.setAttribute('aria-label', 'Schema')
      })
      return createElement('span', { ref: box }, createElement(Accordion, props))
    },
    // Swagger UI gives each table the role of a region, but no name. Remove the role.
    responses: (Responses) => (props) => {
      const box = useRef(null)
      useLayoutEffect(() => box.current.querySelector('table.responses-table')?.removeAttribute('role'))
      return createElement('div', { ref: box }, createElement(Responses, props))
    },
  },
})

await Promise.all(loads)
globalThis.SwaggerUIBundle({
  url: description,
  domNode: place,
  layout: 'Reference',
  plugins: [plugin],
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: -1,
  defaultModelRendering: 'model',
  supportedSubmitMethods: [],
  validatorUrl: null,
  syntaxHighlight: { activated: false },
  onComplete() {
    document.querySelector('#reference')?.remove()
  },
})
