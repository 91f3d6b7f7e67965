-- Look how much memory an object takes.
-- KEYS  its keys
-- RETURN  the sum in bytes, -1 if it has none of them
local sum = -1
for _, key in ipairs(KEYS) do
  local bytes = redis.call('memory', 'usage', key)
  if bytes then sum = math.max(sum, 0) + bytes end
end
return sum
