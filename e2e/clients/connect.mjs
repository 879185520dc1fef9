// One face for the clients, so that each story is told once. What is shown is
// what a host sees: results, errors with their code and data, and the
// notifications that handlers were registered for.
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';
import * as z from 'zod';

const info = { name: 'attend-e2e', version: '1' };
const any = z.looseObject({});
const subscriptionId = 'io.modelcontextprotocol/subscriptionId';
const kinds = ['active', 'event', 'heartbeat', 'error', 'terminated', 'list_changed'];
// JSON-RPC has no word for a request without an end.
const noTimeout = 2 ** 31 - 1;

/** The clients under test, by name: package, transport, and what the 2.x client is asked to speak. */
export const clients = {
  'sdk-1': { major: 1, over: 'http' },
  'sdk-1-stdio': { major: 1, over: 'stdio' },
  'client-2-legacy': { major: 2, over: 'http' },
  'client-2-auto': { major: 2, over: 'http', mode: 'auto', modern: true },
  'client-2-pinned': { major: 2, over: 'http', mode: { pin: '2026-07-28' }, modern: true },
  'client-2-stdio': { major: 2, over: 'stdio', mode: { pin: '2026-07-28' }, modern: true },
};

/** connect returns a client of that name, connected to the daemon. */
export async function connect(name, daemon) {
  const { major, over, mode, modern = false } = clients[name];
  const lost = { next: false, count: 0 };
  const transport = over === 'http' ? overHttp(major, daemon, lost) : overStdio(major, daemon);

  // Neither package tells the caller the JSON-RPC id of a request.
  const streams = [];
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === 'events/stream') streams.push(message.id);
    return send(message, options);
  };

  const client = major === 1 ? new Client1(info) : new Client2(info, mode ? { versionNegotiation: { mode } } : {});
  const errors = [];
  const notifications = [];
  client.onerror = (err) => errors.push(err.message);
  for (const kind of kinds) {
    const method = `notifications/events/${kind}`;
    const note = (params) => { notifications.push({ kind, subscription: params?._meta?.[subscriptionId], params }); };
    if (major === 1) client.setNotificationHandler(z.object({ method: z.literal(method), params: any.optional() }), (n) => note(n.params));
    else client.setNotificationHandler(method, { params: any }, note);
  }
  await client.connect(transport);
  if (over === 'stdio') {
    const deliver = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (lost.next && message.result) {
        lost.next = false;
        lost.count++;
        return;
      }
      deliver(message, extra);
    };
  }

  return {
    name, modern, over, errors, notifications, streams,
    capabilities: client.getServerCapabilities(),
    /** The daemon knows a session of this client, and forgets it when it is restarted. */
    hasSession: over === 'http' && !modern,
    request: (method, params = {}, signal) => client.request({ method, params }, any, { signal, timeout: noTimeout }),
    tools: async () => (await client.listTools()).tools,
    async tool(tool, args, signal) {
      const options = { signal, timeout: noTimeout };
      const call = { name: tool, arguments: args };
      const got = await (major === 1 ? client.callTool(call, undefined, options) : client.callTool(call, options));
      if (got.isError) throw new Error(got.content[0].text);
      return got.structuredContent;
    },
    listen: (filter) => client.listen(filter),
    /** The next answer comes from the daemon and does not arrive. */
    loseNextAnswer: () => { lost.next = true; },
    lostAnswers: () => lost.count,
    close: () => client.close(),
  };
}

function overHttp(major, daemon, lost) {
  const Transport = major === 1 ? Http1 : Http2;
  return new Transport(new URL(`${daemon.url}/mcp`), {
    requestInit: { headers: daemon.headers },
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      if (!lost.next || init?.method !== 'POST') return answer;
      lost.next = false;
      await answer.arrayBuffer();
      lost.count++;
      throw new TypeError('the connection broke');
    },
  });
}

function overStdio(major, daemon) {
  const Transport = major === 1 ? Stdio1 : Stdio2;
  return new Transport({
    command: daemon.binary, args: ['mcp'], stderr: 'inherit',
    env: { ...process.env, ATTEND_URL: daemon.url, ATTEND_TOKEN: daemon.token },
  });
}
