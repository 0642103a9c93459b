// Polls the requests of a space.
import { useEffect, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import type { RegionRequest } from "../gen/kent/v1/regions_pb.ts";
import { spaceName } from "../lib/names.ts";
import { type Load, useLoad } from "./load.ts";

const PAGE = 1000;

/** The requests that the user may see, the newest first. */
export function useRequests(props: {
  space: string;
  includeClosed: boolean;
  news: unknown;
  everyMs: number;
  /** Whether the user has a permission for regions. If not, the daemon is not asked. */
  has: boolean;
}): Load<RegionRequest[] | undefined> {
  const { space, includeClosed, news, everyMs, has } = props;
  const [round, setRound] = useState(0);
  const load = useLoad(
    async (signal) => {
      if (!has) return undefined;
      const parent = spaceName(space);
      const page = await regions.listRegionRequests({ parent, pageSize: PAGE, includeClosed }, { signal });
      return page.requests;
    },
    [space, includeClosed, news, has, round],
  );
  // Stop polling after a refusal, because each refusal is written to the audit log.
  const isOver = !has || load.refused?.kind === "no-permission";
  useEffect(() => {
    if (isOver) return;
    const next = () => {
      if (!document.hidden) setRound((before) => before + 1);
    };
    const timer = setInterval(next, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, isOver]);
  return load;
}
