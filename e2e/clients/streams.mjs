// What a host that subscribes does: events/stream, several at once, each on
// its own request.
import assert from 'node:assert/strict';
import { connect } from './connect.mjs';
import { daemon, until, within } from './daemon.mjs';
import { soon } from './calls.mjs';

const decision = 'attention.decision';
const open = 'attend_event_streams';

/** follow opens a stream of decisions and returns when it is active. */
const follow = (c, scope, cursor) => subscribe(c, { name: decision, arguments: { scope }, ...(cursor && { cursor }) });

/** subscribe opens a stream and returns when it is active. */
export async function subscribe(c, params) {
  const control = new AbortController();
  const at = c.streams.length;
  const stream = {
    ended: c.request('events/stream', params, control.signal).then((result) => ({ result }), (error) => ({ error })),
    cancel: () => control.abort('enough'),
    heard: (kind) => c.notifications.filter((n) => n.subscription === stream.id && n.kind === kind),
    notices: () => stream.heard('event').map((n) => n.params.data.notice),
  };
  await until('the request is sent', () => c.streams.length > at);
  stream.id = c.streams[at]; // the first id of some clients is 0
  const [active] = await until('the stream is active', () => stream.heard('active').length && stream.heard('active'));
  assert.ok(active.params.cursor);
  assert.equal(active.params.truncated, false);
  return stream;
}

/** Two streams at once: each hears its own, and cancelling one leaves the other. */
export async function streams(c) {
  const wide = await follow(c, 'chat:s*');
  const narrow = await follow(c, 'chat:s2');
  assert.notEqual(wide.id, narrow.id);
  assert.equal(await daemon.metric(open), 2);
  await daemon.push('chat:s1', 'one');
  const [second] = await daemon.push('chat:s2', 'two');
  await until('both have heard', () => wide.notices().length >= 2 && narrow.notices().length >= 1);
  assert.deepEqual([wide.notices(), narrow.notices()], [['one', 'two'], ['two']]);
  const [event] = narrow.heard('event');
  assert.deepEqual([event.params.name, event.params.eventId], [decision, second]);
  assert.ok(event.params.cursor && event.params.timestamp && event.params.data.id === second);
  for (const n of c.notifications) assert.ok([wide.id, narrow.id].includes(n.subscription), `${n.kind} of ${n.subscription}`);

  wide.cancel();
  assert.ok((await within('the cancelled stream', wide.ended)).error);
  await daemon.becomes(open, 1);
  await daemon.push('chat:s2', 'three');
  await until('the other goes on', () => narrow.notices().length === 2);
  assert.deepEqual([wide.notices(), narrow.notices()], [['one', 'two'], ['two', 'three']]);
  narrow.cancel();
  await within('the other', narrow.ended);
  await daemon.becomes(open, 0);
  assert.deepEqual(c.errors, []);
}

/** The daemon sees at once that a stream is given up. */
export async function cancel(c) {
  await soon(async () => {
    const stream = await follow(c, 'chat:cancel');
    await daemon.becomes(open, 1);
    stream.cancel();
    return daemon.becomes(open, 0);
  });
}

/** A client that closes leaves nothing behind. */
export async function leave(c) {
  await follow(c, 'chat:leave');
  await follow(c, 'chat:*');
  await daemon.becomes(open, 2);
  await c.close();
  await daemon.becomes(open, 0);
}

/** What is wrong with a stream is an ordinary error. */
export async function refused(c) {
  for (const [params, code] of [
    [{ name: 'no.such.event' }, -32023],
    [{ name: decision, cursor: 'made up' }, -32602],
    [{ name: decision, arguments: { scope: [] } }, -32602],
  ]) {
    await assert.rejects(c.request('events/stream', params), (err) => err.code === code);
  }
  assert.equal(await daemon.metric(open), 0);
}

/** SIGTERM: every stream ends with a result, and so the client knows. */
export async function stop(c) {
  const first = await follow(c, 'chat:*');
  const second = await follow(c, 'chat:stop');
  await daemon.push('chat:stop', 'before the end');
  await daemon.terminate();
  for (const stream of [first, second]) {
    const { result, error } = await within('the stream', stream.ended);
    assert.ok(result, `${error}`);
    assert.equal(result._meta['io.modelcontextprotocol/subscriptionId'], stream.id);
    assert.deepEqual(stream.notices(), ['before the end']);
  }
  await daemon.start();
}

/** kill -9: the stream goes on from the last cursor, without a gap and without a repeat. */
export async function resume(c) {
  const stream = await follow(c, 'chat:resume');
  await daemon.push('chat:resume', 'a', 'b', 'c');
  await until('two have come', () => stream.notices().length >= 2);
  const { cursor } = stream.heard('event')[1].params; // as if the third had been lost
  await daemon.crash();
  stream.cancel(); // some clients never notice
  await within('the stream', stream.ended);
  if (c.hasSession) c = await connect(c.name, daemon);

  await daemon.push('chat:resume', 'd');
  const again = await follow(c, 'chat:resume', cursor);
  await daemon.push('chat:resume', 'e');
  await until('all have come', () => again.notices().length >= 3);
  assert.deepEqual(again.notices(), ['c', 'd', 'e']);
  again.cancel();
  await within('the new stream', again.ended);
  return c;
}

/** A quiet stream says that it is alive, and how far it has looked. */
export async function heartbeat(c) {
  const stream = await follow(c, 'chat:quiet');
  await daemon.push(`chat:loud-${c.name}`, 'not for this stream');
  const [beat] = await until('there is a heartbeat', () => stream.heard('heartbeat').length && stream.heard('heartbeat'), 100);
  assert.ok(beat.params.cursor);
  assert.notEqual(beat.params.cursor, stream.heard('active')[0].params.cursor, 'the cursor does not move');
  stream.cancel();
  await within('the stream', stream.ended);
}

/** subscriptions/listen, in the revision that has it. */
export async function listen(c) {
  const subscription = await c.listen({ eventsListChanged: true });
  await subscription.close();
  // Over HTTP the client also posts a cancellation without the header that the
  // revision demands, and does not mind that it is refused.
  assert.deepEqual(c.errors.filter((message) => !message.includes('notifications/cancelled')), []);
}
