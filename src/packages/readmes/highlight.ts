/// <reference types="highlight.js" />
import hljs from 'highlight.js/lib/core'
import bash from 'highlight.js/lib/languages/bash'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import dockerfile from 'highlight.js/lib/languages/dockerfile'
import http from 'highlight.js/lib/languages/http'
import ini from 'highlight.js/lib/languages/ini'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import nginx from 'highlight.js/lib/languages/nginx'
import php from 'highlight.js/lib/languages/php'
import python from 'highlight.js/lib/languages/python'
import shell from 'highlight.js/lib/languages/shell'
import sql from 'highlight.js/lib/languages/sql'
import twig from 'highlight.js/lib/languages/twig'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'

/** The languages that READMEs of PHP packages contain. All 190 languages would take 100 ms to load. */
const languages = {
  bash,
  css,
  diff,
  dockerfile,
  http,
  ini,
  javascript,
  json,
  nginx,
  php,
  python,
  shell,
  sql,
  twig,
  typescript,
  xml,
  yaml,
}
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language)

/** A longer block is shown without colours. */
const maxCodeCharacters = 16 * 1024

/** Returns code as escaped HTML with colours. Null for an unknown language and for long code. */
export function highlightCode(code: string, language: string): string | null {
  if (code.length > maxCodeCharacters || !hljs.getLanguage(language)) return null
  return hljs.highlight(code, { language, ignoreIllegals: true }).value
}

/**
 * Returns code as lines of escaped HTML with colours. A color that spans lines is opened again in each of them. Null for
 * an unknown language.
 */
export function highlightLines(code: string, language: string): string[] | null {
  if (!hljs.getLanguage(language)) return null
  const open: string[] = []
  return hljs
    .highlight(code, { language, ignoreIllegals: true })
    .value.split('\n')
    .map((line) => {
      const before = open.join('')
      for (const [tag] of line.matchAll(/<span [^>]*>|<\/span>/g)) {
        if (tag === '</span>') open.pop()
        else open.push(tag)
      }
      return before + line + '</span>'.repeat(open.length)
    })
}
