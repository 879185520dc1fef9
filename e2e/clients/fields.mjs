// What agents that share a Field do: they write, are told what contradicts, and
// lose nothing when the daemon dies.
import assert from 'node:assert/strict';
import { connect } from './connect.mjs';
import { daemon, until, within } from './daemon.mjs';
import { subscribe } from './streams.mjs';

const topic = 'price';
const intent = 'seen on their page today';

const write = (c, field, agent, amount) => c.tool('field_write', { field, agent, intent, entry: { topic, amount } });
const reckon = (field, cursor) => ({ name: 'field.reckon', arguments: { field, agent: 'mara', topic }, ...(cursor && { cursor }) });
const pairs = (data) => data.conflicts.map((x) => [x.a.id, x.b.id]);
const open = 'attend_field_subscriptions';

/** The tools, whose answers the client holds to the schemas that it has listed. */
export async function field(c) {
  const tools = (await c.tools()).filter((t) => t.name.startsWith('field_'));
  assert.equal(tools.length, 11);
  for (const tool of tools) assert.ok(tool.description && tool.inputSchema.properties.field && tool.outputSchema, tool.name);
  const types = (await c.request('events/list')).events.filter((e) => e.name.startsWith('field.'));
  assert.deepEqual(types.map((e) => e.name), ['field.attune', 'field.reckon']);

  const use = (op, args = {}) => c.tool(`field_${op}`, { field: 'tools', ...args });
  await use('register', { id: 'mara', role: 'pricing analyst' });
  const kelps = await write(c, 'tools', 'kelp', 39);
  const gulls = await write(c, 'tools', 'gull', 49);
  const attuned = await use('attune', { agent: 'mara', topic });
  assert.deepEqual(attuned.entries.map((e) => e.id), [gulls.id, kelps.id]);
  assert.match(attuned.entries[0].relevance_reason.summary, /topic match/);
  const reckoned = await use('reckon', { agent: 'mara', topic });
  assert.deepEqual(reckoned.conflicts.map((x) => [x.keys, x.a.entry.amount, x.b.entry.amount]), [[['amount'], 49, 39]]);

  const { draft_id } = await use('draft', { agent: 'mara', intent, entry: { topic, amount: 45 } });
  assert.equal((await use('commit', { draft_id })).id, draft_id);
  const idle = await use('draft', { agent: 'mara', intent, entry: {} });
  await use('discard', { draft_id: idle.draft_id, agent: 'mara', intent });
  await use('supersede', { superseding_id: kelps.id, agent: 'kelp', intent, entry: { topic, amount: 49 } });
  await use('retract', { id: draft_id, agent: 'mara', intent });
  await use('deregister', { id: 'mara' });
  const read = await use('read', { query: { topic } });
  assert.deepEqual(read.entries.map((e) => e.status), ['superseded', 'committed', 'retracted', 'committed']);
  await assert.rejects(use('retract', { id: gulls.id, agent: 'mara', intent }), /RETRACT_NOT_AUTHORIZED/);
  await assert.rejects(use('attune'), /AGENT_REQUIRED/);
  assert.deepEqual(c.errors, []);
}

/** Two agents contradict each other: a third hears of it, by a stream and by polls. */
export async function contradiction(c) {
  const now = await c.request('events/poll', reckon('told'));
  assert.deepEqual([now.events, now.truncated], [[], false]);
  const stream = await subscribe(c, reckon('told'));
  await write(c, 'another', 'kelp', 1);
  const kelps = await write(c, 'told', 'kelp', 39);
  const gulls = await write(c, 'told', 'gull', 49);
  const [event] = await until('the conflict is told', () => stream.heard('event').length && stream.heard('event'));
  assert.equal(event.params.name, 'field.reckon');
  assert.ok(event.params.cursor && !Number.isNaN(Date.parse(event.params.timestamp)));
  assert.deepEqual(pairs(event.params.data), [[gulls.id, kelps.id]]);
  assert.deepEqual(event.params.data.conflicts[0].keys, ['amount']);

  const polled = await c.request('events/poll', reckon('told', now.cursor));
  assert.deepEqual(polled.events.map((e) => e.eventId), [event.params.eventId]);
  assert.deepEqual(polled.events[0].data, event.params.data);
  assert.deepEqual((await c.request('events/poll', reckon('told', polled.cursor))).events, []);
  stream.cancel();
  await within('the stream', stream.ended);
  await daemon.becomes(open, 0);
  for (const method of ['events/poll', 'events/stream']) {
    await assert.rejects(c.request(method, reckon('told', (await decisions(c)).cursor)), (err) => err.code === -32602 && err.data.path === '/cursor');
  }
}

const decisions = (c) => c.request('events/poll', { name: 'attention.decision' });

/** kill -9: a stream goes on from its cursor, with what changed and nothing else. */
export async function fieldCrash(c) {
  const stream = await subscribe(c, reckon('crash'));
  const begin = stream.heard('active')[0].params.cursor;
  const kelps = await write(c, 'crash', 'kelp', 39);
  const gulls = await write(c, 'crash', 'gull', 49);
  await until('the conflict is told', () => stream.heard('event').length === 1);
  const { cursor } = stream.heard('event')[0].params;
  await daemon.crash();
  stream.cancel(); // some clients never notice
  await within('the stream', stream.ended);
  if (c.hasSession) c = await connect(c.name, daemon);

  // As if the event had been lost; and as if it had not.
  const missed = await subscribe(c, reckon('crash', begin));
  await until('it is told again', () => missed.heard('event').length === 1);
  assert.deepEqual(pairs(missed.heard('event')[0].params.data), [[gulls.id, kelps.id]]);
  assert.deepEqual((await c.request('events/poll', reckon('crash', cursor))).events, []);
  missed.cancel();
  await within('that stream', missed.ended);

  const again = await subscribe(c, reckon('crash', cursor));
  const ada = await write(c, 'crash', 'ada', 59);
  await until('what changes is told', () => again.heard('event').length >= 1);
  const told = again.heard('event').map((n) => n.params.data.conflicts.flatMap((x) => [x.a.id, x.b.id]));
  assert.equal(told.length, 1);
  assert.ok(told[0].includes(ada.id) && told[0].length === 6, `${told}`);
  again.cancel();
  await within('the new stream', again.ended);
  return c;
}
