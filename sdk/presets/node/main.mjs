// Reads lines LAYOUT<tab>ID from standard input, and prints the fields that a library finds in each identifier as JSON.
// Then prints the identifiers that the library generates: main.mjs COUNT MACHINE.
import { readFileSync } from "node:fs";
import { initializeApp } from "@firebase/app";
import { getDatabase, goOffline, push, ref } from "@firebase/database";
import { DiscordSnowflake, TwitterSnowflake } from "@sapphire/snowflake";
import { ObjectId } from "bson";
import { milliseconds } from "firebase-key";
import alphabetOfKeys from "firebase-key/dist/key-alphabet.js";
import { decodeTime, ulid, ulidToUUID } from "ulid";

const [count, machine] = process.argv.slice(2).map(Number);
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const integer = (digits) => BigInt(`0x${digits}`).toString();

const snowflakes = (snowflake) => ({
  library: "@sapphire/snowflake",
  read(id) {
    const { timestamp, workerId, processId, increment } = snowflake.deconstruct(id);
    const fields = { unix_ms: `${timestamp}`, worker: `${workerId}`, process: `${processId}`, increment: `${increment}` };
    return [BigInt(id).toString(16).padStart(16, "0"), fields];
  },
  generate: () => `${snowflake.generate({ workerId: BigInt(machine >> 5), processId: BigInt(machine & 31) })}`,
});

let database;
const firebase = () => {
  if (!database) {
    database = getDatabase(initializeApp({ databaseURL: "https://unused.firebaseio.com" }));
    goOffline(database); // A key is generated without the server.
  }
  return push(ref(database)).key;
};

const libraries = {
  "snowflake-twitter": snowflakes(TwitterSnowflake),
  "snowflake-discord": snowflakes(DiscordSnowflake),
  ulid: {
    library: "ulid",
    read(id) {
      const bits = ulidToUUID(id).replaceAll("-", "").toLowerCase();
      return [bits, { unix_ms: decodeTime(id), random: integer(bits.slice(12)) }];
    },
    generate: () => ulid(),
  },
  objectid: {
    library: "bson",
    read(text) {
      const id = ObjectId.createFromHexString(text);
      // The library has no names for the bytes after the time: five of the process and three of the counter.
      const fields = { process: integer(hex(id.id.subarray(4, 9))), counter: integer(hex(id.id.subarray(9, 12))) };
      return [id.toHexString(), { unix_ms: id.getTimestamp().getTime(), ...fields }];
    },
    generate: () => new ObjectId().toHexString(),
  },
  pushid: {
    library: "@firebase/database, firebase-key",
    read(id) {
      const digit = (character) => BigInt(alphabetOfKeys.alphabet.indexOf(character));
      const number = (text) => [...text].reduce((value, character) => value * 64n + digit(character), 0n);
      const bits = number(id).toString(16).padStart(30, "0");
      return [bits, { unix_ms: milliseconds(id), random: number(id.slice(8)).toString() }];
    },
    generate: firebase,
  },
};

function print(layout, from, id) {
  const { library, read } = libraries[layout];
  let found;
  try {
    const [bits, fields] = read(id);
    found = { hex: bits, fields };
  } catch (error) {
    found = { error: String(error) };
  }
  console.log(JSON.stringify({ layout, library, from, id, ...found }));
}

const layouts = new Set();
for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  const [layout, id] = line.split("\t");
  layouts.add(layout);
  print(layout, "kent", id);
}
for (const layout of layouts) {
  for (let number = 0; number < count; number++) print(layout, "library", libraries[layout].generate());
}
