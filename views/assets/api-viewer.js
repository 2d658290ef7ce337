/*
 * Shows the OpenAPI description with Swagger UI, in place of the reference that the server rendered. The reference stays
 * if a part cannot be loaded.
 */
const place = document.querySelector('#api-viewer')
const { description, styles } = place.dataset
/** A load of each stylesheet. They are not in the page itself, so its first paint does not wait for them. */
const loads = styles.split(' ').map(
  (href) =>
    new Promise((resolve, reject) => {
      const link = document.createElement('link')
      Object.assign(link, { rel: 'stylesheet', href, onload: resolve, onerror: reject })
      document.head.append(link)
    }),
)

/** Swagger UI without what one would use to send requests, and with mistakes of its HTML mended. */
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
    // The disabled fields of a request that cannot be sent.
    JsonSchemaForm: () => null,
  },
  wrapComponents: {
    // The toggle of a schema without a title has no text.
    JSONSchema202012Accordion: (Accordion) => (props) => {
      const box = useRef(null)
      useLayoutEffect(() => {
        const button = box.current.querySelector('button')
        if (button.textContent === '') button.setAttribute('aria-label', 'Schema')
      })
      return createElement('span', { ref: box }, createElement(Accordion, props))
    },
    // It gives each table the role of a region, without a name.
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
