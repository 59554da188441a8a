/** Which keys the list hears, and the switch for those who do not want them. */
import { useMessages } from "../i18n";
import { useStore } from "../store";
import { Dialog } from "../ui/dialog";
import { KEYS, keysHeard } from "./workspaces-keys";
import "./workspaces-help.css";

export default function KeysHelp({ onClose }: { onClose: () => void }) {
  const m = useMessages();
  const heard = useStore(keysHeard);
  return (
    <Dialog title={m.keys.title} onClose={onClose}>
      <dl className="keys">
        {KEYS.map((key) => (
          <div key={key} className="keys__line">
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{m.keys.does[key]}</dd>
          </div>
        ))}
      </dl>
      <label className="check">
        <input
          type="checkbox"
          checked={heard === "on"}
          onChange={(event) => keysHeard.choose(event.target.checked ? "on" : "off")}
        />
        {m.keys.heard}
      </label>
    </Dialog>
  );
}
