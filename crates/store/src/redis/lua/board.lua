-- The status board. args: 1, 2 the time or -1; 3 the operation; 4 the node, 5, 6 the halves of its sequence number, 7 its
-- state, 8 the TTL; 9 the maximum size of a state in bytes, 10 the maximum number of nodes.
-- A hash with one field per node: its expiry (7 bytes), the sequence number (8 bytes), the state.
local args = cmsgpack.unpack(ARGV[1])
--TIME
local key = KEYS[1]
local function decide()
  if args[3] == 2 then
    redis.call('HDEL', key, args[4])
    return { 0 }
  end
  if args[3] == 1 then
    local stored = redis.call('HGET', key, args[4])
    if stored and #stored >= 15 then
      local expires, high, low = struct.unpack('>I7I4I4', stored)
      local is_older = args[5] < high or args[5] == high and args[6] < low
      if expires > mono and is_older then return { 0 } end
    elseif not stored and redis.call('HLEN', key) >= args[10] then
      error('too many nodes')
    end
    redis.call('HSET', key, args[4], struct.pack('>I7I4I4', mono + args[8], args[5], args[6]) .. args[7])
    local left = redis.call('PTTL', key)
    if left < span(args[8]) then redis.call('PEXPIRE', key, span(args[8])) end
    return { 0 }
  end
  local answer = {}
  for _, node in ipairs(redis.call('HKEYS', key)) do
    if #answer < 2 * args[10] and redis.call('HSTRLEN', key, node) <= args[9] + 15 then
      local stored = redis.call('HGET', key, node)
      if #stored >= 15 and struct.unpack('>I7', stored) > mono then
        answer[#answer + 1] = node
        answer[#answer + 1] = string.sub(stored, 8)
      elseif #stored >= 15 then
        redis.call('HDEL', key, node)
      end
    end
  end
  return answer
end
local ok, answer = pcall(decide)
if ok then return answer end
-- An invalid board is deleted; every node publishes its state again within seconds.
if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
return { 9, tostring(answer) }
