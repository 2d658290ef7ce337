import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { FormError, parseForm, readForm, readQuery, readTexts, text, textList } from '../../src/web/forms.ts'

const Schema = z.object({ name: text, color: textList, size: z.enum(['s', 'm']).optional() })
const read = (body: string) => readForm(Schema, { body: { form: parseForm(body) } } as FastifyRequest)

describe('a form', () => {
  it.each([
    ['', { name: '', color: [] }],
    ['name=ann&color=red&color=blue&size=m', { name: 'ann', color: ['red', 'blue'], size: 'm' }],
    ['name=a+b%20c%2B', { name: 'a b c+', color: [] }],
    ['name=%C3%A9&%6Eame=', { name: 'é', color: [] }],
    ['name=a=b', { name: 'a=b', color: [] }],
    ['name=&name=ann', { name: 'ann', color: [] }],
    ['other=1&other=2&__proto__=x', { name: '', color: [] }],
  ])('is read by its schema: %s', (body, values) => {
    expect(read(body)).toEqual(values)
  })

  it.each([
    ['name=%zz', 'well-formed'],
    ['name=%', 'well-formed'],
    ['name=%ff', 'well-formed'],
    ['name=a%00b', 'well-formed'],
    ['other=\ufffd', 'well-formed'],
    ['name=a&name=b', 'The parameter name is repeated.'],
    ['size=xl', 'The parameter size has a value that is not allowed.'],
  ])('is refused: %s', (body, reason) => {
    expect(() => read(body)).toThrow(FormError)
    expect(() => read(body)).toThrow(reason)
  })
})

describe('a form of single texts', () => {
  const names = new Set(['name', 'size'] as const)
  const readNames = (body: string) => readTexts(names, { body: { form: parseForm(body) } } as FastifyRequest)

  it.each([
    ['', {}],
    ['name=a+b%20c%2B&size=', { name: 'a b c+' }],
    ['size=xl&%6Eame=%C3%A9', { name: 'é', size: 'xl' }],
    ['name=&name=ann', { name: 'ann' }],
    ['other=1&other=2&__proto__=x&constructor=y', {}],
  ])('has the fields that were named: %s', (body, texts) => {
    expect(readNames(body)).toEqual(texts)
  })

  it.each([
    ['name=%zz', 'well-formed'],
    ['other=\ufffd', 'well-formed'],
    ['name=a&name=b', 'The parameter name is repeated.'],
  ])('is refused: %s', (body, reason) => {
    expect(() => readNames(body)).toThrow(FormError)
    expect(() => readNames(body)).toThrow(reason)
  })

  it('is empty without a body', () => {
    expect(readTexts(names, {} as FastifyRequest)).toEqual({})
  })
})

it('a query is read in the same way', () => {
  expect(readQuery(Schema, { url: '/x?color=red&name=ann' } as FastifyRequest)).toEqual({
    name: 'ann',
    color: ['red'],
  })
  expect(readQuery(Schema, { url: '/x' } as FastifyRequest)).toEqual({ name: '', color: [] })
  expect(() => readQuery(Schema, { url: '/x?name=%zz' } as FastifyRequest)).toThrow(FormError)
})
