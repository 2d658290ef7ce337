import { writeFile } from 'node:fs/promises'
import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { sendRegistryError } from '../../../src/registry/protocol/http.ts'

describe('an upload that meets a full volume', () => {
  it('gets errcode 8 and 507 (COMPOSER D)', async () => {
    const app = Fastify()
    app.setErrorHandler(sendRegistryError)
    app.put('/upload', () => writeFile('/dev/full', 'an archive'))
    const response = await app.inject({ method: 'PUT', url: '/upload' })
    expect(response.statusCode).toBe(507)
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.json()).toEqual({ errcode: 8, errmsg: 'no space left for archives' })
  })
})
