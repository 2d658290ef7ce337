import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { invalidArgument } from './errors.ts'
import { type ListQuery, nextLink, type Page, PageQuery, partOf } from './paging.ts'

/** What an interface lets in: the scope it asks of a token, and who comes in with it. */
export interface Entrance<Admitted> {
  /** Null for an interface that is open to everyone. */
  scope: string | null
  /** Throws the refusals of RFC 6750, and 404 for what the token may not see. */
  admit: (request: FastifyRequest) => Promise<Admitted>
}

const Nothing = z.object({})

/** An interface: what it takes is judged by this, and /api/openapi.json is written from the same. */
export interface Interface<
  Admitted,
  Query extends z.ZodObject = typeof Nothing,
  Body extends z.ZodObject = typeof Nothing,
  Answer extends z.ZodType = z.ZodVoid,
> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  summary: string
  entrance: Entrance<Admitted>
  query?: Query
  body?: Body
  /** None for an interface that answers 204. */
  answer?: Answer
  /** Of the answer; 200 unless it says otherwise, 204 without one. */
  status?: 201
}

/** What an interface is called with, judged. */
export interface Call<Admitted, Query extends z.ZodObject, Body extends z.ZodObject> {
  request: FastifyRequest
  reply: FastifyReply
  admitted: Admitted
  query: z.output<Query>
  body: z.output<Body>
}

/** What is told of an interface, for its description. */
export interface InterfaceDescription {
  summary: string
  scope: string | null
  query: z.ZodObject | null
  body: z.ZodObject | null
  answer: z.ZodType | null
  status: 200 | 201 | 204
  isPaged: boolean
}

declare module 'fastify' {
  interface FastifyContextConfig {
    interface?: InterfaceDescription
  }
}

/** Adds an interface. Who may not come in learns nothing of what is wrong with the rest of the request. */
export function addInterface<
  Admitted,
  Query extends z.ZodObject = typeof Nothing,
  Body extends z.ZodObject = typeof Nothing,
  Answer extends z.ZodType = z.ZodVoid,
>(
  scope: FastifyInstance,
  about: Interface<Admitted, Query, Body, Answer>,
  handle: (call: Call<Admitted, Query, Body>) => Promise<z.input<Answer>>,
): void {
  const { answer, status = answer ? 200 : 204 } = about
  route(scope, about, { answer: answer ?? null, status, isPaged: false }, async (call) => {
    const body = await handle(call)
    return call.reply.code(status).send(body)
  })
}

/** Adds an interface that answers a list in parts: `?limit=`, and a Link header that leads to the next part. */
export function addList<Admitted, Item extends z.ZodType, Query extends z.ZodObject = typeof Nothing>(
  scope: FastifyInstance,
  about: Omit<Interface<Admitted, Query>, 'method' | 'body' | 'answer' | 'status'> & { item: Item },
  baseUrl: string,
  handle: (
    call: Omit<Call<Admitted, Query, never>, 'body'> & { part: ListQuery },
  ) => Promise<Page<z.input<Item>>>,
): void {
  const told = { answer: z.array(about.item), status: 200, isPaged: true } as const
  route(scope, { ...about, method: 'GET' as const }, told, async (call) => {
    const part = partOf(parse(PageQuery, call.request.query, 'the query'))
    const { items, next } = await handle({ ...call, part })
    if (next !== null) call.reply.header('link', nextLink(baseUrl, call.request.url, next))
    return call.reply.send(items)
  })
}

function route<Admitted, Query extends z.ZodObject, Body extends z.ZodObject>(
  scope: FastifyInstance,
  about: Pick<Interface<Admitted, Query, Body>, 'method' | 'url' | 'summary' | 'entrance' | 'query' | 'body'>,
  told: Pick<InterfaceDescription, 'answer' | 'status' | 'isPaged'>,
  answer: (call: Call<Admitted, Query, Body>) => Promise<FastifyReply>,
): void {
  const { method, url, summary, entrance, query = null, body = null } = about
  const description: InterfaceDescription = { ...told, summary, scope: entrance.scope, query, body }
  scope.route({
    method,
    url,
    config: { interface: description },
    handler: async (request, reply) => {
      const admitted = await entrance.admit(request)
      const call = {
        request,
        reply,
        admitted,
        query: parse(query ?? Nothing, request.query, 'the query') as z.output<Query>,
        body: parse(body ?? Nothing, body ? request.body : {}, 'the body') as z.output<Body>,
      }
      return answer(call)
    },
  })
}

/** Foreign input as its schema has it. Throws errcode 3 that names the member and the rule. */
function parse<Schema extends z.ZodType>(schema: Schema, input: unknown, what: string): z.output<Schema> {
  const parsed = schema.safeParse(input ?? {})
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw invalidArgument(`${issue?.path.join('.') || what}: ${issue?.message}`)
}
