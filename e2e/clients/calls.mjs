// What a host does with attend, told once for every client.
import assert from 'node:assert/strict';
import { connect } from './connect.mjs';
import { daemon, until, within } from './daemon.mjs';

const decision = 'attention.decision';
const ids = (answer) => answer.decisions.map((d) => d.id);
const eventIds = (answer) => answer.events.map((e) => e.eventId);

/** What is there: capabilities, tools, event types. */
export async function discover(c) {
  assert.ok(c.capabilities.extensions['io.modelcontextprotocol/events'], 'the extension is not declared');
  const tools = await c.tools();
  for (const name of ['attend_wait', 'attend_push', 'attend_flush']) {
    const tool = tools.find((t) => t.name === name);
    assert.ok(tool?.description && tool.inputSchema && tool.outputSchema && tool.annotations, name);
  }
  const list = await c.request('events/list');
  for (const name of [decision, 'attention.deadLetter']) {
    const type = list.events.find((e) => e.name === name);
    assert.ok(type?.description && type.payloadSchema.properties.id, name);
    assert.equal(type.inputSchema.additionalProperties, false);
    assert.ok(type.delivery.includes('poll'));
  }
}

/** Polls from now on, in pages, with what HTTP shows as the measure. */
export async function poll(c) {
  const now = await c.request('events/poll', { name: decision });
  assert.deepEqual([now.events, now.hasMore, now.truncated], [[], false, false]);
  const want = await daemon.push('chat:poll', 'one', 'two', 'three');
  await daemon.push('chat:other', 'one');

  const ask = (cursor) => c.request('events/poll', { name: decision, cursor, maxEvents: 2, arguments: { scope: 'chat:poll' } });
  const first = await ask(now.cursor);
  assert.deepEqual([eventIds(first), first.hasMore], [want.slice(0, 2), true]);
  const second = await ask(first.cursor);
  assert.deepEqual([eventIds(second), second.hasMore], [want.slice(2), false]);
  assert.deepEqual(eventIds(await ask(second.cursor)), []);

  const [event] = first.events;
  assert.equal(event.name, decision);
  assert.ok(!Number.isNaN(Date.parse(event.timestamp)));
  assert.equal(event.data.notice, 'one');
  assert.equal(event.data.route, 'interrupt');
  assert.equal(event.data.events[0].data, undefined, 'raw data crossed MCP');
}

/** Errors reach the caller with their code and data. */
export async function errors(c) {
  const fails = async (method, params) => {
    try {
      await c.request(method, params);
    } catch (err) {
      return err;
    }
    return assert.fail(`${method} ${JSON.stringify(params)} did not fail`);
  };
  let err = await fails('events/poll', { name: 'no.such.event' });
  assert.deepEqual([err.code, err.data?.kind], [-32023, 'event']);
  for (const [params, path] of [
    [{ name: decision, cursor: 'made up' }, '/cursor'],
    [{ name: decision, maxEvents: 0 }, '/maxEvents'],
    [{ name: decision, arguments: { scope: 7 } }, '/arguments/scope'],
    [{ name: decision, arguments: { colour: 'red' } }, '/arguments/colour'],
    [{}, '/name'],
  ]) {
    err = await fails('events/poll', params);
    assert.deepEqual([err.code, err.data?.path], [-32602, path], `${JSON.stringify(params)}: ${err}`);
    assert.ok(err.data.reason);
  }
  err = await fails('events/nosuch');
  // Over HTTP this is a status in 2026-07-28, and all that the client tells.
  if (c.modern && c.over === 'http') assert.match(String(err.message), /404|not found/i);
  else assert.equal(err.code, -32601);
  await assert.rejects(c.tool('attend_wait', { timeoutMs: -1 }), /timeoutMs/);
  if (!(c.modern && c.over === 'http')) assert.deepEqual(c.errors, []);
}

/** The loop of an agent, with an answer that is lost on the way. */
export async function wait(c) {
  const consumer = 'looper';
  const ask = (args, signal) => c.tool('attend_wait', { consumer, ...args }, signal);
  assert.equal((await ask({ timeoutMs: 0 })).timedOut, true);

  const waiting = ask({});
  await daemon.becomes('attend_mcp_waits', 1);
  const pushed = await c.tool('attend_push', { events: [{ scope: 'chat:wait', name: 'message.created', text: 'one' }] });
  assert.equal(pushed.accepted, 1);
  const first = await waiting;
  assert.deepEqual(first.decisions.map((d) => d.notice), ['one']);
  assert.deepEqual([first.redelivered, first.timedOut], [false, false]);

  const [second] = await daemon.push('chat:wait', 'two');
  const lost = new AbortController();
  c.loseNextAnswer();
  const never = ask({ ack: first.ack }, lost.signal).then(() => 'an answer', () => 'none');
  await until('the answer is lost', () => c.lostAnswers() === 1);
  lost.abort('it takes too long');
  assert.equal(await within('the lost call', never), 'none');

  const again = await ask({});
  assert.deepEqual([ids(again), again.redelivered], [[second], true]);
  assert.deepEqual(ids(await ask({ ack: again.ack, timeoutMs: 0 })), []);
}

/** Two calls as one consumer: the newer one ends the older. */
export async function two(c) {
  const ask = () => c.tool('attend_wait', { consumer: 'twin' });
  await c.tool('attend_wait', { consumer: 'twin', timeoutMs: 0 });
  const older = ask();
  await daemon.becomes('attend_mcp_waits', 1);
  const newer = ask();
  const ended = await within('the older call', older);
  assert.deepEqual([ended.decisions, ended.timedOut], [[], false]);
  const want = await daemon.push('chat:two', 'for the newer');
  assert.deepEqual(ids(await within('the newer call', newer)), want);
}

/** A wait that is given up ends in the daemon at once. */
export async function giveUp(c) {
  await soon(async () => {
    const control = new AbortController();
    const ended = c.tool('attend_wait', { timeoutMs: 240_000 }, control.signal).catch(() => 'given up');
    await daemon.becomes('attend_mcp_waits', 1);
    control.abort('changed my mind');
    assert.equal(await within('the call', ended), 'given up');
    return daemon.becomes('attend_mcp_waits', 0);
  });
  assert.deepEqual(c.errors, []);
}

/**
 * soon holds the median of five times to 100 ms, and to what the machine takes
 * for the requests by which it is seen: with others on it, that may be long.
 */
export async function soon(measure) {
  const median = (times) => times.toSorted((a, b) => a - b)[2];
  const times = [];
  const requests = [];
  for (let i = 0; i < 5; i++) {
    times.push(await measure());
    const began = performance.now();
    await daemon.metric('attend_event_streams');
    requests.push(performance.now() - began);
  }
  const bound = 100 + 5 * median(requests);
  const told = `${times.map((t) => t.toFixed()).join(', ')} ms; bound ${bound.toFixed()} ms`;
  console.error(told);
  assert.ok(median(times) < bound, `the daemon saw it after ${told}`);
}

/** kill -9 in the middle: nothing is lost, and nothing that was taken comes again. */
export async function crash(c) {
  const from = (cursor) => c.request('events/poll', { name: decision, cursor, arguments: { scope: 'chat:crash' } });
  const ask = (args) => c.tool('attend_wait', { consumer: 'survivor', scope: 'chat:crash', ...args });
  const start = (await c.request('events/poll', { name: decision })).cursor;
  await ask({ timeoutMs: 0 });

  const before = await daemon.push('chat:crash', 'a', 'b');
  const taken = await ask({});
  assert.deepEqual(ids(taken), before);
  await ask({ ack: taken.ack, timeoutMs: 0 });
  const middle = (await from(start)).cursor;
  const between = await daemon.push('chat:crash', 'c');

  const given = new AbortController();
  const cut = c.tool('attend_wait', { timeoutMs: 240_000 }, given.signal).catch(() => {});
  await daemon.becomes('attend_mcp_waits', 1);
  await daemon.crash();
  given.abort('the daemon died'); // some clients never notice
  await within('the cut call', cut);
  if (c.hasSession) c = await connect(c.name, daemon);

  const after = await daemon.push('chat:crash', 'd', 'e');
  const got = [];
  for (let ack; got.length < 3;) {
    const answer = await ask(ack ? { ack } : {});
    assert.equal(answer.truncated, false);
    assert.equal(answer.redelivered, false);
    got.push(...ids(answer));
    ack = answer.ack;
  }
  assert.deepEqual(got, [...between, ...after]);
  assert.deepEqual(eventIds(await from(start)), [...before, ...between, ...after]);
  assert.deepEqual(eventIds(await from(middle)), [...between, ...after]);
  return c;
}
