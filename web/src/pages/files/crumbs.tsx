import { addressOf, crumbs, shownName, type Place } from "../../files/paths";
import { useInsideMessages } from "../../i18n/inside";
import { Link } from "../../router";

/** The way from the home to what is shown, each step a link. */
export function Crumbs({ id, place }: { id: string; place: Place }) {
  const w = useInsideMessages();
  const steps = [{ name: w.files.home, path: "" }, ...crumbs(place.path)];
  return (
    <nav aria-label={w.files.where} className="crumbs">
      <ol>
        {steps.map((step, i) => {
          const here = i === steps.length - 1;
          return (
            <li key={step.path}>
              {here ? (
                <span aria-current="page">
                  <bdi>{shownName(step.name)}</bdi>
                </span>
              ) : (
                <Link href={addressOf(id, { kind: "folder", path: step.path })}>
                  <bdi>{shownName(step.name)}</bdi>
                </Link>
              )}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
