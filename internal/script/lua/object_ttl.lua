-- Return the TTL of an object.
-- KEYS  its keys
-- RETURN  the TTL of its first existing key in ms, -1 if it never expires, -2 if none exists
for _, key in ipairs(KEYS) do
  local left = redis.call('pttl', key)
  if left ~= -2 then return left end
end
return -2
