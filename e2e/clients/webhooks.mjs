// node webhooks.mjs STORY...: what is posted to a receiver, as two libraries of
// others see it: the AI SDK, which subscribes and has a handler of its own, and
// standardwebhooks, which verifies each body beside it, and refuses it falsified. It exits 0 when all went
// as it should.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { mock } from 'node:test';
import { createMCPClient, experimental_createMCPEventWebhook as createWebhook } from '@ai-sdk/mcp';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { daemon, until } from './daemon.mjs';

const name = 'attention.decision';

/** A store of subscriptions as the AI SDK wants one. */
class Store {
  all = new Map();
  async get(key) { return this.all.get(key); }
  async getById(id) { return [...this.all.values()].find((s) => s.id === id); }
  async set(subscription) { this.all.set(subscription.key, subscription); }
  async update(key, patch) { if (this.all.has(key)) Object.assign(this.all.get(key), patch); }
  async delete(key) { this.all.delete(key); }
}

/**
 * refuses holds that what was posted verifies as it is, and no longer once it is
 * tampered with, kept until it is old, or held against another secret.
 */
function refuses({ headers, body, secret }) {
  const verify = (key, sent, as) => new Webhook(key).verify(sent, as);
  const refused = (why, what, ...args) => assert.throws(() => verify(...args), (err) => {
    assert.ok(err instanceof WebhookVerificationError, `${what}: ${err}`);
    assert.match(err.message, why, what);
    return true;
  }, what);
  const unlike = /No matching signature/;
  const stamp = Number(headers['webhook-timestamp']);
  const tampered = body.replace(/"(name|type)":"/, '$&x');
  assert.notEqual(tampered, body);

  verify(secret, body, headers);
  refused(unlike, 'a changed body', secret, tampered, headers);
  refused(unlike, 'a longer body', secret, `${body} `, headers);
  refused(unlike, 'another id', secret, body, { ...headers, 'webhook-id': 'msg_other' });
  refused(unlike, 'a timestamp made younger', secret, body, { ...headers, 'webhook-timestamp': String(stamp + 1) });
  refused(unlike, 'another secret', `whsec_${Buffer.alloc(32, 9).toString('base64')}`, body, headers);
  mock.timers.enable({ apis: ['Date'], now: (stamp + 301) * 1000 });
  try {
    refused(/too old/, 'one of five minutes ago', secret, body, headers);
  } finally {
    mock.timers.reset();
  }
}

/** Everything that a story needs: a client of the AI SDK, and a receiver with its handler. */
async function connect() {
  const store = new Store();
  const got = [];
  const seen = [];
  const errors = [];
  let refuse = 0;
  const handler = createWebhook({
    store,
    async onEvent({ subscription, event }) {
      if (refuse > 0) {
        refuse--;
        throw new Error('not now');
      }
      got.push({ subscription, event });
    },
    onError: (err) => { if (err.message !== 'not now') errors.push(err); },
  });
  const server = https.createServer({ cert: readFileSync(process.env.HOOK_CERT), key: readFileSync(process.env.HOOK_KEY) }, async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const url = new URL(req.url, `https://${req.headers.host}`);
    const answer = await handler(new Request(url, { method: req.method, headers: req.headers, body }));
    const secret = [...store.all.values()].find((s) => url.href === s.delivery.url)?.delivery.secret;
    seen.push({ headers: req.headers, body: body.toString(), status: answer.status, secret });
    res.writeHead(answer.status, Object.fromEntries(answer.headers)).end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const client = await createMCPClient({
    transport: { type: 'http', url: `${daemon.url}/mcp`, headers: daemon.headers },
    experimental_events: { store },
  });
  return {
    events: client.experimental_events, store, got, seen, errors,
    url: `https://127.0.0.1:${server.address().port}/hook`,
    refuse: (times) => { refuse = times; },
    ids: () => got.map((g) => g.event.eventId),
    /** verify holds every body that was posted against standardwebhooks, true and falsified. */
    verify() {
      const known = seen.filter((s) => s.secret); // not the challenge: it comes before the secret is stored
      assert.ok(known.length > 0, 'nothing was verified');
      known.forEach(refuses);
    },
    async close() {
      await client.close();
      server.closeAllConnections();
      await new Promise((resolve) => { server.close(resolve); });
    },
  };
}

const stories = {
  /** List, subscribe, be asked, receive, refresh, unsubscribe. */
  async whole(c) {
    const { events } = await c.events.list();
    assert.deepEqual(events.find((e) => e.name === name).delivery, ['poll', 'push', 'webhook']);
    const subscribed = await c.events.subscribe({ name, arguments: { scope: 'hook:*' }, delivery: { mode: 'webhook', url: c.url } });
    assert.match(subscribed.id, /^sub_/);
    assert.ok(Date.parse(subscribed.refreshBefore) > Date.now());
    assert.equal(JSON.parse(c.seen[0].body).type, 'verification');

    const want = await daemon.push('hook:a', 'one', 'two');
    await daemon.push('other', 'three');
    await until('both decisions are posted', () => c.got.length === 2);
    assert.deepEqual(c.ids().toSorted(), want.toSorted());
    const [{ event, subscription }] = c.got;
    assert.equal(subscription.id, subscribed.id);
    assert.equal(event.data.scope, 'hook:a');
    assert.equal(event.data.events[0].data, undefined, 'raw data crossed MCP');

    const refreshed = await c.events.refresh({ id: subscribed.id });
    assert.equal(refreshed.id, subscribed.id);
    const more = await daemon.push('hook:b', 'four');
    await until('the next decision is posted', () => c.ids().includes(more[0]));
    await until('the cursor is kept', async () => (await c.store.getById(subscribed.id)).cursor !== subscribed.cursor);

    await c.events.unsubscribe({ id: subscribed.id });
    assert.equal(c.store.all.size, 0);
    const before = c.seen.length;
    const [last] = await daemon.push('hook:c', 'five');
    await new Promise((resolve) => { setTimeout(resolve, 300); });
    assert.equal(c.seen.length, before, `${last} was posted to nobody's subscription`);
    await assert.rejects(c.events.unsubscribe({ id: subscribed.id }));
  },

  /** A handler that refuses is tried again; a daemon that is killed goes on without being asked. */
  async refusalAndCrash(c) {
    const subscribed = await c.events.subscribe({ name, arguments: { scope: 'crash:*' }, ttlMs: null, delivery: { mode: 'webhook', url: c.url } });
    assert.equal(subscribed.refreshBefore, null);
    c.refuse(1);
    const first = await daemon.push('crash:a', 'one');
    await until('it is posted again', () => c.ids().includes(first[0]));
    const tries = c.seen.filter((s) => s.headers['webhook-id'] === first[0]);
    assert.deepEqual(tries.map((s) => s.status), [503, 204]);
    await daemon.crash();
    const second = await daemon.push('crash:a', 'two');
    await until('the decision after the crash is posted', () => c.ids().includes(second[0]));
    await c.events.unsubscribe({ id: subscribed.id });
  },

  /** While a secret rotates, a receiver that knows the old one is served, and so is one that knows the new one. */
  async rotate(c) {
    const subscribed = await c.events.subscribe({ name, arguments: { scope: 'turn:*' }, delivery: { mode: 'webhook', url: c.url } });
    const kept = await c.store.getById(subscribed.id);
    const old = kept.delivery.secret;
    await c.store.update(kept.key, { delivery: { ...kept.delivery, secret: `whsec_${Buffer.alloc(32, 5).toString('base64')}` } });
    await c.events.refresh({ id: subscribed.id });
    const [id] = await daemon.push('turn:a', 'one');
    await until('it is posted', () => c.ids().includes(id));
    const { headers, body } = c.seen.find((s) => s.headers['webhook-id'] === id && s.status === 204);
    assert.equal(headers['webhook-signature'].split(' ').length, 2);
    new Webhook(old).verify(body, headers);
    await c.events.unsubscribe({ id: subscribed.id });
  },
};

let failed = 0;
for (const story of process.argv.slice(2)) {
  const c = await connect();
  try {
    await stories[story](c);
    c.verify();
    assert.deepEqual(c.errors, []);
    console.error(`${story}: well`);
  } catch (err) {
    failed++;
    console.error(`${story}: FAILED`, err, c.seen.map((s) => [s.status, s.body.slice(0, 200)]));
  }
  await c.close();
}
process.exit(failed ? 1 : 0);
