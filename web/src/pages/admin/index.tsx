/** The operator's console: what there is, who leads, what has no owner, who did what. */
import { useTitle } from "../../ui/title";
import { Link } from "../../router";
import { useMessages } from "../../i18n";
import { AuditSection } from "./audit";
import { FindingsSection } from "./findings";
import { OverviewSection } from "./overview";
import { SettingsSection } from "./settings";
import { UsersSection } from "./users";
import { EveryoneSection } from "./workspaces";
import "./admin.css";

const SECTIONS = ["overview", "workspaces", "users", "findings", "settings", "audit"] as const;
type Section = (typeof SECTIONS)[number];

const isSection = (name: string): name is Section => (SECTIONS as readonly string[]).includes(name);

export default function AdminPages({ section }: { section: string }) {
  const m = useMessages();
  const current: Section = isSection(section) ? section : "overview";
  useTitle(`${m.admin.title}: ${m.admin[current]}`);
  return (
    <>
      <div className="page__head">
        <h1>{m.admin.title}</h1>
      </div>
      <nav className="tabs" aria-label={m.admin.title}>
        {SECTIONS.map((name) => (
          <Link
            key={name}
            href={name === "overview" ? "/admin" : `/admin/${name}`}
            className="tabs__link"
            aria-current={name === current ? "page" : undefined}
          >
            {m.admin[name]}
          </Link>
        ))}
      </nav>
      {current === "overview" && <OverviewSection />}
      {current === "workspaces" && <EveryoneSection />}
      {current === "users" && <UsersSection />}
      {current === "findings" && <FindingsSection />}
      {current === "settings" && <SettingsSection />}
      {current === "audit" && <AuditSection />}
    </>
  );
}
