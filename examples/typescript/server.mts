// An HTTP service that numbers orders and events with Kent.
//
// KENT_ENDPOINT=127.0.0.1:7600 PORT=8080 npm start
// curl -X POST 127.0.0.1:8080/orders

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Client, KentError } from "kent-client";

const client = new Client(process.env["KENT_ENDPOINT"] ?? "127.0.0.1:7600", { requestTimeoutMs: 3000 });
const orders = client.region("orders");
const events = client.uuidV7();

interface Answer {
  status: number;
  body: string | Record<string, string>;
}

type Route = () => Answer | Promise<Answer>;

async function placeOrder(): Promise<Answer> {
  const [order, event] = await Promise.all([orders.next(), events.next()]);
  // Send the number as a string, because many JSON parsers round 64-bit integers.
  return { status: 201, body: { order: order.toString(), event } };
}

async function recordEvent(): Promise<Answer> {
  return { status: 201, body: { event: await events.next() } };
}

const routes = new Map<string, Route>([
  ["POST /orders", placeOrder],
  ["POST /events", recordEvent],
  ["GET /healthz", () => ({ status: 200, body: "ok" })],
]);

async function answer(request: IncomingMessage): Promise<Answer> {
  const path = request.url?.split("?")[0] ?? "";
  const route = routes.get(`${request.method} ${path}`);
  if (route === undefined) {
    return { status: 404, body: { error: "no such page" } };
  }
  try {
    return await route();
  } catch (error) {
    if (error instanceof KentError) {
      return { status: 503, body: { error: error.message } }; // Kent refuses the request, or is unreachable.
    }
    console.error(error);
    return { status: 500, body: { error: "internal error" } };
  }
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  request.resume(); // Discard the body of the request.
  const { status, body } = await answer(request);
  const text = typeof body === "string";
  response.writeHead(status, { "content-type": text ? "text/plain" : "application/json" });
  response.end(text ? body : JSON.stringify(body));
}

const server = createServer((request, response) => void handle(request, response));
server.listen(Number(process.env["PORT"] ?? 8080), "127.0.0.1", () => {
  console.log("listening on", server.address());
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    // Finish the requests in progress, and then close the client.
    server.close(() => client.close());
    server.closeIdleConnections();
  });
}
