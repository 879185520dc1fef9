// A server of MCP Events on the official SDK, as others would write one, for the
// daemon to follow: over stdio, or over HTTP with a bearer token. What has
// happened stands in a file, one occurrence a line; what the server is to do
// beside telling it, in another, as one word.
//
//   node eventserver.mjs stdio | http
//
// Cursors are line numbers. Words: "silent" (nothing is said any longer, not
// even a heartbeat), "error" (trouble is told, once), "terminate" (streams are
// ended, once), "lost" (cursors are not known any longer, once), "exit".

import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pass } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const { EVENTS_FILE, WORD_FILE, SERVER_TOKEN, SERVER_PORT = '0' } = process.env;
const subscriptionId = 'io.modelcontextprotocol/subscriptionId';

const occurrences = () => readFileSync(EVENTS_FILE, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line));
const word = () => readFileSync(WORD_FILE, 'utf8').trim();

// once tells whether a word is said, and takes it back.
function once(expected) {
  if (word() !== expected) return false;
  writeFileSync(WORD_FILE, '');
  return true;
}

// begin finds where a subscription goes on.
function begin(cursor) {
  if (once('lost')) return { at: Math.max(0, occurrences().length - 1), truncated: true };
  return { at: cursor === null ? occurrences().length : Number(cursor), truncated: false };
}

const method = (name, params) => z.object({ method: z.literal(name), params });
const Subscription = z.object({ name: z.string(), arguments: z.object({ repo: z.string() }), cursor: z.string().nullable() }).loose();

function eventServer() {
  const server = new Server({ name: 'event-server', version: '1.0.0' }, { capabilities: { events: { listChanged: false } } });
  const type = (name, ...delivery) => ({ name, description: name, delivery, inputSchema: { type: 'object' }, payloadSchema: { type: 'object' } });
  server.setRequestHandler(method('events/list', z.any()), () => ({ events: [type('repo.activity', 'poll', 'push'), type('repo.polled', 'poll')] }));
  server.setRequestHandler(method('events/poll', Subscription), ({ params }) => {
    const { at, truncated } = begin(params.cursor);
    const events = occurrences().slice(at, at + 2);
    const cursor = at + events.length;
    return { events, cursor: String(cursor), truncated, hasMore: cursor < occurrences().length, nextPollMs: 100 };
  });
  server.setRequestHandler(method('events/stream', Subscription), ({ params }, { requestId, sendNotification, signal }) => stream(params, requestId, sendNotification, signal));
  return server;
}

async function stream({ cursor }, id, send, signal) {
  const tell = (kind, params) => send({ method: `notifications/events/${kind}`, params: { ...params, _meta: { [subscriptionId]: id } } });
  let { at, truncated } = begin(cursor);
  await tell('active', { cursor: String(at), truncated });
  for (let tick = 1; !signal.aborted; tick++) {
    await pass(20);
    if (word() === 'silent') continue;
    if (word() === 'exit') process.exit(1);
    if (once('error')) await tell('error', { error: { code: -32603, message: 'the tap drips' } });
    if (once('terminate')) {
      await tell('terminated', { error: { code: -32000, message: 'enough' } });
      return {};
    }
    for (const occurrence of occurrences().slice(at)) await tell('event', { ...occurrence, cursor: String(++at) });
    if (tick % 10 === 0) await tell('heartbeat', { cursor: String(at) });
  }
  return {};
}

const sessions = new Map();

async function serve(request, response) {
  if (request.headers.authorization !== `Bearer ${SERVER_TOKEN}`) return response.writeHead(401).end();
  const id = request.headers['mcp-session-id'];
  const known = sessions.get(id);
  if (known) return known.handleRequest(request, response);
  if (id) {
    return response.writeHead(404, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null }));
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID, onsessioninitialized: (session) => sessions.set(session, transport),
  });
  await eventServer().connect(transport);
  return transport.handleRequest(request, response);
}

if (process.argv[2] === 'stdio') {
  await eventServer().connect(new StdioServerTransport());
} else {
  const http = createServer(serve).listen(Number(SERVER_PORT), '127.0.0.1', () => console.log(http.address().port));
}
