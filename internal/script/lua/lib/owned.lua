-- owned returns the mode of a lock, '' if it has none, and a list: its remaining ms, then the owners and their counts as text, at
-- most about a hundred. It returns nothing if the hash is not a lock.
local function owned(key)
  local seen = { redis.call('pttl', key) }
  if seen[1] == -2 then return '', seen end
  local mode, owners, counts = lock(key, 100, true)
  for i, owner in ipairs(owners or {}) do
    seen[#seen + 1] = owner
    seen[#seen + 1] = tostring(counts[i])
  end
  return mode, seen
end
