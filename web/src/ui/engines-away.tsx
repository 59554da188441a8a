/** Says on every page, while it lasts, that something workspaces depend on cannot be used. */
import { useQuery } from "@tanstack/react-query";
import { coordinatorsQuery } from "../api/queries";
import { useMessages } from "../i18n";
import { useUser } from "../session";
import { enginesAway } from "../words/engines";
import "./engines-away.css";

const LOOK_EVERY_MS = 30_000;

export function EnginesAway() {
  const m = useMessages();
  const admin = useUser().role === "admin";
  const { data } = useQuery({ ...coordinatorsQuery, refetchInterval: LOOK_EVERY_MS, retry: false });
  return (
    <div role="status" className="banner-slot">
      {enginesAway(data).map(([engine, why]) => (
        <div key={engine} className="banner">
          <span>{engine === "archives" ? m.app.archivesAway : m.app.runtimeAway}</span>
          {admin && <span className="banner__why">{why}</span>}
        </div>
      ))}
    </div>
  );
}
