"""Why a group is stuck or silent: facts gathered in two looks, rules that judge them, findings that say what to do."""
